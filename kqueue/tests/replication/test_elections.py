"""In-sync sets and elections of one partition: rules 3 to 6 and 29."""

from kqueue.replication.elections import (
    effective_min_isr,
    elect,
    elect_preferred,
    elect_unclean,
    is_unclean,
    raise_epochs,
    topic_allows_unclean,
    topic_min_isr,
    with_configs,
    with_isr,
    with_last_known,
)
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.tests.replication.support import topic
from kqueue.tests.tables import for_each

P = PartitionRegistration


@for_each(
    "partition, isr, lost, expected_isr, expected_elr",
    [
        (P((1, 2, 3), (1, 2, 3), 1), (1, 3), (), (1, 3), ()),  # still enough
        (P((1, 2, 3), (1, 2), 1), (2,), (), (2,), (1,)),  # below the minimum: eligible
        (P((1, 2, 3), (1, 2), 1), (2,), (1,), (2,), ()),  # but not after a loss
        (P((1, 2, 3), (2,), 2, elr=(1,)), (), (), (), (1, 2)),  # nobody is left
        (P((1, 2, 3), (), -1, elr=(1, 2)), (), (1,), (), (2,)),
        (P((1, 2, 3), (2,), 2, elr=(1,)), (3, 2), (), (2, 3), ()),  # rule 6, and in the replicas' order
        (P((1,), (1,), 1), (), (1,), (), ()),  # the only replica, after a loss
    ],
)
def test_members_that_leave(partition, isr, lost, expected_isr, expected_elr) -> None:
    after = with_isr(partition, isr, 2, lost)
    assert (after.isr, after.elr) == (expected_isr, expected_elr)


def test_the_last_leader_is_known_while_there_is_none() -> None:
    before = P((1, 2, 3), (1,), 1)
    without = raise_epochs(before, before._replace(isr=(), elr=(1,), leader=NO_LEADER))
    assert without.last_known_leader == 1
    later = raise_epochs(without, without._replace(elr=()))
    assert later.last_known_leader == 1
    assert raise_epochs(later, elect(later, {1}, 2)) == P((1, 2, 3), (1,), 1, 2, 3, recovering=True)


@for_each(
    "partition, active, leader, isr, elr",
    [
        (P((1, 2, 3), (2, 3), 1), {1, 2, 3}, 2, (2, 3), ()),
        (P((1, 2, 3), (2, 3), 2), {1, 3}, 3, (2, 3), ()),
        (P((1, 2, 3), (), -1, elr=(2, 3)), {1, 3}, 3, (3,), (2,)),
        (P((1, 2, 3), (), -1, elr=(2,)), {1, 3}, NO_LEADER, (), (2,)),
        (P((1, 2), (), -1, last_known_leader=2), {1}, NO_LEADER, (), ()),
    ],
)
def test_elections(partition, active, leader, isr, elr) -> None:
    after = elect(partition, active, 2)
    assert (after.leader, after.isr, after.elr) == (leader, isr, elr)
    assert not is_unclean(partition, after)
    assert not after.recovering


def test_the_last_leader_leads_where_all_lost_records() -> None:
    before = P((1, 2), (), -1, last_known_leader=2)
    after = elect(before, {1, 2}, 2)
    assert (after.leader, after.isr, after.recovering) == (2, (2,), True)
    assert is_unclean(before, after)


@for_each(
    "before, outdated, last_leader, last_elr",
    [
        (P((1, 2, 3), (), -1, elr=(2,), last_known_leader=3), (), 3, (2,)),  # it was killed
        (P((1, 2, 3), (), -1, elr=(2,), last_known_leader=3), (3,), -1, (2, 3)),  # and the last leader is outdated
        (P((1, 2, 3), (), -1, elr=(2,), last_known_leader=3), (2,), 3, ()),
        (P((1, 2, 3), (), -1, elr=(2,), last_known_leader=3), (2, 3), -1, (3,)),  # as good as any
        (P((1, 2, 3), (), -1, elr=(2,), last_known_elr=(1, 3)), (), -1, (2, 1, 3)),
        (P((1, 2, 3), (), -1, elr=(2,), last_known_elr=(1, 3)), (1, 2), -1, (3, 1)),
        (P((1, 2, 3), (3,), 3), (3,), -1, (3,)),  # the last leader, before anybody knew that it is none
    ],
)
def test_the_latest_that_was_killed_goes_before_a_last_leader_that_is_outdated(
    before, outdated, last_leader, last_elr
) -> None:
    after = with_last_known(before, before._replace(isr=(), elr=(), leader=NO_LEADER), {1, 2, 3}, outdated)
    after = raise_epochs(before, after)
    assert (after.last_known_leader, after.last_known_elr) == (last_leader, last_elr)
    leader = last_leader if last_leader != NO_LEADER else last_elr[0]
    assert elect(after, {1, 2, 3} - {leader}, 2).leader == NO_LEADER, "it is waited for"
    led = raise_epochs(after, elect(after, {1, 2, 3}, 2))
    assert (led.leader, led.recovering, led.last_known_leader, led.last_known_elr) == (leader, True, NO_LEADER, ())
    assert is_unclean(after, led)


def test_an_unclean_election_leaves_nobody_eligible() -> None:
    before = P((1, 2, 3), (), -1, elr=(2,), last_known_leader=2)
    after = elect_unclean(before, {3})
    assert (after.leader, after.isr, after.elr, after.recovering) == (3, (3,), (), True)
    assert is_unclean(before, after)
    assert elect_unclean(before, set()).leader == NO_LEADER


def test_the_preferred_leader_must_be_in_sync_and_active() -> None:
    partition = P((1, 2, 3), (1, 2), 2)
    assert elect_preferred(partition, {1, 2}).leader == 1
    assert elect_preferred(partition, {2}) is partition
    behind = partition._replace(isr=(2,))
    assert elect_preferred(behind, {1, 2}) is behind


def test_epochs_rise_once() -> None:
    before = P((1, 2, 3), (1, 2), 1, leader_epoch=4, partition_epoch=9)
    assert raise_epochs(before, before._replace(isr=(1, 2))) is before
    assert raise_epochs(before, before._replace(isr=(1,)))[3:5] == (4, 10)
    assert raise_epochs(before, before._replace(leader=2, isr=(2,)))[3:5] == (5, 10)
    assert raise_epochs(before, before._replace(replicas=(1, 2)))[3:5] == (5, 10)
    assert raise_epochs(before, before._replace(replicas=(1, 2, 3, 4)))[3:5] == (4, 10)


def test_settings_of_a_topic() -> None:
    assert topic_min_isr({"min.insync.replicas": "3"}, 2) == 3
    assert topic_min_isr({}, 2) == 2
    assert topic_allows_unclean({"unclean.leader.election.enable": "true"}, False)
    assert not topic_allows_unclean({"unclean.leader.election.enable": "false"}, True)
    assert topic_allows_unclean({}, True)
    assert effective_min_isr(P((1,), (1,), 1), 2) == 1


def test_a_lower_minimum_ends_eligibility() -> None:
    before = topic(P((1, 2, 3), (1,), 1, elr=(2,)), P((1, 2, 3), (), -1, elr=(2,)), P((1, 2, 3), (1, 2), 1))
    after = with_configs(before, {"min.insync.replicas": "1"}, 2)
    assert [(partition.elr, partition.partition_epoch) for partition in after.partitions] == [
        ((), 1),
        ((2,), 0),
        ((), 0),
    ]
    assert after.configs == {"min.insync.replicas": "1"}
    assert with_configs(before, {}, 2).partitions == before.partitions
