"""The leader of a partition: fetches of followers, high watermark, in-sync set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import (
    FencedLeaderEpoch,
    NotLeader,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.replication.leader_replica import LeaderReplica, ReplicaFetch, accept_proposal
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.replication.support import broker, brokers
from kqueue.tests.tables import for_each

P = PartitionRegistration
LAG_MS = 100


def leader_of(isr=(1, 2, 3), leo=10, high_watermark=4, **fields) -> LeaderReplica:
    registration = P((1, 2, 3), isr, 1, leader_epoch=5, **fields)
    return LeaderReplica(1, registration, leo=leo, high_watermark=high_watermark, now_ms=0)


def fetch(leader, node, offset, *, log_end=10, now_ms=0, broker_epoch=1, last_epoch=-1):
    request = ReplicaFetch(node, broker_epoch, 5, offset, last_epoch)
    return leader.fetched(request, lambda epoch: (epoch, log_end), log_end, now_ms)


def propose(leader, *, log_end=10, now_ms=0, min_isr=2, active=None):
    return leader.proposal(log_end, now_ms, LAG_MS, min_isr, {1: 1, 2: 1, 3: 1} if active is None else active)


def test_the_high_watermark_waits_for_all_in_sync() -> None:
    """Rule 22."""
    leader = leader_of()
    assert not leader.advance(10, 2)  # nobody has fetched in this epoch
    fetch(leader, 2, 8)
    assert not leader.advance(10, 2)
    fetch(leader, 3, 9)
    assert leader.advance(10, 2)
    assert leader.high_watermark == 8
    assert not leader.advance(6, 2)  # never back
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.advance(9, 2)  # what is flushed of its own log
    assert leader.high_watermark == 9


def test_nothing_is_committed_below_the_minimum_or_while_others_are_eligible() -> None:
    below = leader_of(isr=(1,), elr=(2,))
    assert below.is_under_min_isr(2)
    assert not below.advance(10, 2)
    assert not below.is_under_min_isr(1)
    assert not below.advance(10, 1)  # the minimum has fallen; broker 2 must leave the eligible first
    proposal = propose(below, min_isr=1)
    after = accept_proposal(below.registration, proposal, brokers(1, 2, 3), 1)
    assert (after.isr, after.elr) == ((1,), ())
    assert below.applied(after, 0)
    assert below.advance(10, 1)


@for_each("epoch, error", [(4, FencedLeaderEpoch), (6, UnknownLeaderEpoch)])
def test_another_leader_epoch_is_refused(epoch, error) -> None:
    """Rule 15."""
    with pytest.raises(error, match=f"of leader epoch {epoch}, this leader of 5"):
        leader_of().check_epoch(epoch)
    leader_of().check_epoch(5)
    leader_of().check_epoch(-1)


def test_fetches_that_record_nothing() -> None:
    leader = leader_of()
    fetch(leader, 2, 8, broker_epoch=3)
    with pytest.raises(NotLeader, match="it has fetched with 3 since"):
        fetch(leader, 2, 10, broker_epoch=2)
    with pytest.raises(NotLeader, match="broker 7 is no replica"):
        fetch(leader, 7, 10)
    with pytest.raises(OffsetOutOfRange, match="beyond the log end 10"):
        fetch(leader, 2, 11, broker_epoch=3)
    assert fetch(leader, 2, 11, broker_epoch=3, last_epoch=5) == (5, 10)
    assert leader.followers[2].leo == 8


@for_each(
    "offset, last_epoch, expected",
    [
        (0, -1, None),
        (6, 1, (1, 5)),  # epoch 1 ended at 5
        (5, 1, None),
        (7, 2, (1, 5)),  # the leader has no epoch 2
        (9, 3, None),
        (12, 3, (3, 10)),
        (11, 4, (3, 10)),
        (10, 5, None),
    ],
)
def test_diverging_logs(offset, last_epoch, expected) -> None:
    """Rule 16. The leader has epochs 1 from 0 on, 3 from 5 on, and 5, which has begun at 10."""
    epochs = LeaderEpochCache()
    for epoch, start in ((1, 0), (3, 5), (5, 10)):
        epochs.assign(epoch, start)
    assert leader_of().diverging(offset, last_epoch, lambda epoch: epochs.end_offset_for(epoch, 10)) == expected


def test_an_epoch_that_is_unknown() -> None:
    with pytest.raises(OffsetOutOfRange, match="the end of epoch 7 is unknown"):
        leader_of().diverging(5, 7, lambda _epoch: (-1, -1))


def test_a_follower_lags_by_the_time_since_it_had_all() -> None:
    """Rule 24. It has caught up if it asks for the log end of its fetch before."""
    leader = leader_of()
    fetch(leader, 2, 10, now_ms=50)
    fetch(leader, 3, 8, log_end=10, now_ms=50)
    fetch(leader, 3, 10, log_end=12, now_ms=120)  # was caught up at 50
    assert propose(leader, log_end=12, now_ms=150) is None
    proposal = propose(leader, log_end=12, now_ms=151)
    assert proposal.isr == (1,)
    assert proposal.lagging == {2: 101, 3: 101}


def test_follower_with_the_whole_log_does_not_lag() -> None:
    leader = leader_of(isr=(1, 2))
    fetch(leader, 2, 10, now_ms=0)
    assert propose(leader, now_ms=10_000, active={}) is None


def test_follower_that_never_fetches_leaves_the_isr() -> None:
    assert propose(leader_of(), now_ms=101).isr == (1,)
    assert propose(leader_of(), now_ms=100) is None


@for_each(
    "offset, active, joins",
    [
        (10, {3: 1}, True),
        (9, {3: 1}, False),  # below the start of the epoch
        (10, {3: 2}, False),  # registered again since
        (10, {}, False),  # fenced
    ],
)
def test_joining(offset, active, joins) -> None:
    """Rule 25."""
    leader = leader_of(isr=(1, 2))
    fetch(leader, 3, offset)
    proposal = propose(leader, active=active)
    assert (proposal is not None) is joins
    if joins:
        assert proposal.isr == (1, 2, 3)
        assert proposal.added == {3: 1}


def test_a_new_member_counts_at_once_and_one_proposal_is_in_flight() -> None:
    """Rule 26."""
    leader = leader_of(isr=(1, 2), leo=6)
    fetch(leader, 2, 10)
    fetch(leader, 3, 6)
    proposal = propose(leader)
    assert leader.maximal_isr == {1, 2, 3}
    assert propose(leader) is None
    leader.advance(10, 2)
    assert leader.high_watermark == 6
    leader.rejected(proposal)
    assert leader.maximal_isr == {1, 2}
    assert leader.advance(10, 2)
    assert leader.high_watermark == 10


def test_members_of_unknown_proposals_count_until_a_newer_registration() -> None:
    """Rule 28."""
    leader = leader_of(isr=(1, 2))
    fetch(leader, 3, 10)
    first = propose(leader)
    leader.unknown(first)
    assert leader.maximal_isr == {1, 2, 3}
    second = propose(leader, active={})  # it can't join any more, and a proposal is made in any case
    assert second.isr == (1, 2)
    leader.rejected(first)  # a late answer to another one
    assert propose(leader) is None
    leader.rejected(second)
    assert leader.maximal_isr == {1, 2, 3}
    assert leader.applied(leader.registration._replace(partition_epoch=1), 0)
    assert leader.maximal_isr == {1, 2}


def test_older_registrations_are_passed_over() -> None:
    """Rule 8."""
    leader = leader_of(partition_epoch=7)
    assert not leader.applied(leader.registration._replace(isr=(1,)), 0)
    assert not leader.applied(leader.registration._replace(isr=(1,), partition_epoch=6), 0)
    newer = leader.registration._replace(replicas=(1, 2, 4), isr=(1, 2), partition_epoch=9)
    assert leader.applied(newer, 0)
    assert leader.followers.keys() == {2, 4}
    with pytest.raises(AssertionError):
        leader.applied(newer._replace(leader_epoch=6, partition_epoch=10), 0)


def test_an_unclean_leader_says_that_its_log_is_in_order() -> None:
    leader = leader_of(isr=(1,), recovering=True)
    after = accept_proposal(leader.registration, propose(leader), brokers(1, 2, 3), 2)
    assert not after.recovering
    assert (after.leader_epoch, after.partition_epoch) == (5, 1)


@for_each(
    "change, registered",
    [
        ({"leader_epoch": 6}, brokers(1, 2, 3)),
        ({"leader": 2}, brokers(1, 2, 3)),
        ({"partition_epoch": 1}, brokers(1, 2, 3)),
        ({}, {3: broker(3, epoch=2)}),
        ({}, {3: broker(3, fenced=True)}),
        ({}, {3: broker(3, shutting_down=True)}),
        ({}, {}),
        ({"replicas": (1, 2)}, brokers(1, 2, 3)),
    ],
)
def test_the_store_refuses(change, registered) -> None:
    """Rule 27."""
    leader = leader_of(isr=(1, 2))
    fetch(leader, 3, 10)
    proposal = propose(leader)
    assert accept_proposal(leader.registration, proposal, brokers(3), 2).isr == (1, 2, 3)
    assert accept_proposal(leader.registration._replace(**change), proposal, registered, 2) is None


def test_members_that_leave_below_the_minimum_stay_eligible() -> None:
    """Rule 29."""
    leader = leader_of(isr=(1, 2))
    after = accept_proposal(leader.registration, propose(leader, now_ms=101), brokers(1, 2, 3), 2)
    assert (after.isr, after.elr, after.leader_epoch) == ((1,), (2,), 5)


@given(st.lists(st.tuples(st.integers(2, 3), st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_the_high_watermark_never_goes_back_nor_beyond_a_member(fetches) -> None:
    leader = leader_of(leo=0, high_watermark=0)
    for node, offset, own in fetches:
        before = leader.high_watermark
        fetch(leader, node, offset, log_end=20)
        leader.advance(own, 2)
        assert leader.high_watermark >= before
        if leader.high_watermark > before:
            assert leader.high_watermark <= min(own, leader.followers[2].leo, leader.followers[3].leo)
