from __future__ import annotations

from kqueue.client import TopicPartition
from kqueue.console.history.behind import BehindSince, GroupPosition, Positions, Since

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def at(offset: int | None, end: int | None, partition: TopicPartition = ZERO) -> Positions:
    lag = None if offset is None or end is None else end - offset
    return {partition: GroupPosition(offset, lag)}


def recorded(*samples: tuple[int, int | None, int]) -> BehindSince:
    """Return what is known after samples of one group: time, offset, log end."""
    since = BehindSince()
    for time_ms, offset, end in samples:
        since.record(time_ms, {"g": at(offset, end)}, {ZERO: end})
    return since


def test_a_group_that_stops_is_behind_since_the_sample_whose_records_it_has_not_read() -> None:
    since = recorded((10, 5, 5), (20, 5, 7), (30, 5, 9), (40, 5, 9))
    assert since.group("g") == since.partition("g", ZERO) == Since(20)


def test_a_group_that_reads_at_the_pace_of_its_producers_is_not_behind() -> None:
    since = recorded((10, 5, 5), (20, 7, 9), (30, 9, 12), (40, 12, 15))
    assert since.group("g") is None
    assert since.partition("g", ZERO) is None


def test_lag_at_the_first_sample_may_be_older() -> None:
    since = recorded((10, 5, 9), (20, 5, 9))
    assert since.group("g") == Since(10, is_at_least=True)


def test_a_group_that_caught_up_is_behind_no_more_and_may_be_again() -> None:
    since = recorded((10, 5, 9), (20, 9, 9))
    assert since.group("g") is None
    since.record(30, {"g": at(9, 11)}, {ZERO: 11})
    since.record(40, {"g": at(9, 11)}, {ZERO: 11})
    assert since.group("g") == Since(30)


def test_a_lag_that_can_not_be_read_changes_nothing() -> None:
    since = recorded((10, 5, 9), (20, None, 9))
    assert since.group("g") == Since(10, is_at_least=True)
    since.record(30, {}, {}, unread=["g", "other"])
    assert since.partition("g", ZERO) == Since(10, is_at_least=True)
    assert since.group("other") is None
    since.record(40, {}, {})  # it was deleted
    assert since.group("g") is since.partition("g", ZERO) is None


def test_a_group_is_behind_while_any_partition_is() -> None:
    since = BehindSince()
    ends = {ZERO: 9, ONE: 9}
    since.record(10, {"g": {**at(9, 9), **at(9, 9, ONE)}}, ends)
    since.record(20, {"g": {**at(9, 12), **at(9, 9, ONE)}}, {ZERO: 12, ONE: 9})
    since.record(30, {"g": {**at(9, 12), **at(9, 12, ONE)}}, {ZERO: 12, ONE: 12})
    since.record(40, {"g": {**at(12, 12), **at(9, 12, ONE)}}, {ZERO: 12, ONE: 12})
    assert since.partition("g", ZERO) is None
    assert (since.partition("g", ONE), since.group("g")) == (Since(30), Since(20))


def test_a_share_group_without_a_start_is_behind_by_its_lag() -> None:
    since = BehindSince()
    for time_ms, lag in ((10, 0), (20, 3)):
        since.record(time_ms, {"g": {ZERO: GroupPosition(None, lag)}}, {ZERO: 9})
    assert since.group("g") == Since(10)


def test_partitions_beyond_the_limit_are_not_remembered_and_their_group_is() -> None:
    since = BehindSince(partitions_max=1)
    since.record(10, {"g": {**at(0, 9), **at(0, 9, ONE)}, "h": at(0, 9)}, {ZERO: 9, ONE: 9})
    assert since.partition("g", ZERO) is not None
    assert since.partition("g", ONE) is since.partition("h", ZERO) is None
    assert since.group("h") is not None


def test_a_sample_soon_after_another_begins_nothing_and_ends_what_was_read() -> None:
    since = BehindSince(step_ms_min=5)
    since.record(10, {"g": at(5, 5)}, {ZERO: 5})
    since.record(11, {"g": at(5, 9)}, {ZERO: 9})
    since.record(12, {"g": at(5, 9)}, {ZERO: 9})
    assert since.group("g") is None
    since.record(20, {"g": at(7, 9)}, {ZERO: 9})  # it has read what was there at 10
    assert since.group("g") is None
    since.record(30, {"g": at(7, 9)}, {ZERO: 9})
    assert since.group("g") == Since(20)
    since.record(31, {"g": at(9, 9)}, {ZERO: 9})
    assert since.group("g") is None
