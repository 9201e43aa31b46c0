"""A follower takes the answer to its outstanding fetch only, and truncates where the logs part."""

from kqueue.replication.follower_replica import FollowerReplica, Truncation
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.tables import for_each

REGISTRATION = PartitionRegistration((1, 2, 3), (1, 2), 1, leader_epoch=5)


def test_only_the_outstanding_fetch_is_accepted_once() -> None:
    follower = FollowerReplica(REGISTRATION)
    fetch = follower.next_fetch(10, 4)
    assert fetch == (1, 5, 10, 4)
    assert follower.accepts(fetch, 10, 4)
    assert not follower.accepts(fetch, 10, 4)
    earlier, later = follower.next_fetch(10, 4), follower.next_fetch(10, 4)
    assert not follower.accepts(earlier, 10, 4)
    assert follower.accepts(later, 10, 4)


@for_each("log_end, last_epoch", [(11, 4), (9, 4), (10, 5)])
def test_an_answer_for_another_end_of_the_log_is_void(log_end, last_epoch) -> None:
    follower = FollowerReplica(REGISTRATION)
    assert not follower.accepts(follower.next_fetch(10, 4), log_end, last_epoch)


def test_a_new_leader_or_epoch_voids_the_outstanding_fetch() -> None:
    for change in ({"leader_epoch": 6}, {"leader": 3}):
        follower = FollowerReplica(REGISTRATION)
        fetch = follower.next_fetch(10, 4)
        follower.applied(REGISTRATION._replace(**change))
        assert not follower.accepts(fetch, 10, 4)
    follower = FollowerReplica(REGISTRATION)
    fetch = follower.next_fetch(10, 4)
    follower.applied(REGISTRATION._replace(isr=(1,), partition_epoch=1))
    assert follower.accepts(fetch, 10, 4)


def test_a_fetch_without_answer_is_abandoned() -> None:
    follower = FollowerReplica(REGISTRATION)
    fetch = follower.next_fetch(10, 4)
    follower.abandon(fetch)
    assert not follower.accepts(fetch, 10, 4)


@for_each(
    "diverging, own_end, expected",
    [
        ((3, 8), (3, 9), Truncation(8, False)),
        ((3, 9), (3, 8), Truncation(8, False)),
        ((3, 9), (2, 7), Truncation(7, False)),  # epoch 3 is unknown here
        ((3, 20), (3, 20), Truncation(10, False)),
        ((3, 4), (3, 9), Truncation(4, True)),  # below the high watermark
        ((3, 0), (-1, -1), Truncation(0, True)),
    ],
)
def test_truncation(diverging, own_end, expected) -> None:
    follower = FollowerReplica(REGISTRATION)
    assert follower.truncation(diverging, lambda _epoch: own_end, log_end=10, high_watermark=6) == expected


def test_the_high_watermark_follows_the_leaders_within_the_log() -> None:
    follower = FollowerReplica(REGISTRATION)
    assert follower.high_watermark(leaders=8, log_end=10, own=5) == 8
    assert follower.high_watermark(leaders=12, log_end=10, own=5) == 10
    assert follower.high_watermark(leaders=3, log_end=10, own=5) == 5
