"""The store of offsets, and when an offset has outlived its use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.timers import Timers
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.offset_store import NOT_COMMITTED, UNSTABLE, OffsetStore, is_expired
from kqueue.tests.groups.support import unlimited
from kqueue.tests.tables import for_each


def offset(number: int = 1, committed_ms: int = 1000, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(number, -1, "", committed_ms, expires_ms)


def group(
    state: ClassicGroupState,
    protocol_type: str | None = "consumer",
    since_ms: int | None = 5000,
    subscribed: frozenset[str] | None = None,
) -> ClassicGroup:
    empty_group = ClassicGroup("g", LazyTimer(Timers(), lambda: None), LazyTimer(Timers(), lambda: None), unlimited())
    empty_group.state, empty_group.protocol_type, empty_group.state_since_ms, empty_group.subscribed = (
        state,
        protocol_type,
        since_ms,
        subscribed,
    )
    return empty_group


def test_keeps_the_last_offset_of_each_partition() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset(1))
    store.put("g", "t", 0, offset(2))
    store.put("g", "u", 3, offset(3))
    assert store.of("g") == {"t": {0: offset(2)}, "u": {3: offset(3)}}
    assert store.of("other") == {}


def test_a_fetch_returns_no_offsets_of_a_deleted_topic() -> None:
    store = OffsetStore(unlimited())
    mine, other = b"\1" * 16, b"\2" * 16
    store.put("g", "t", 0, offset(1)._replace(topic_id=mine))
    store.put("g", "t", 1, offset(2)._replace(topic_id=other))
    store.put("g", "t", 2, offset(3))
    present = {0: offset(1)._replace(topic_id=mine), 2: offset(3)}
    assert store.fetch("g", "t", mine) == present
    assert list(store.fetch("g", "t", None)) == [0, 1, 2], "of a topic that is unknown, none is left out"
    assert store.fetch("g", "t", mine, [2, 1, 7]) == {2: offset(3), 1: NOT_COMMITTED, 7: NOT_COMMITTED}
    assert store.fetch("g", "u", mine) == {}


def test_a_fetch_of_stable_offsets_names_those_that_a_transaction_may_replace() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset(1))
    store.put("g", "t", 1, offset(2))
    store.pending.add(0, 7, "g", ("t", 0), offset(9))
    named = store.fetch("g", "t", None, [0, 1], require_stable=True)
    assert named[0] is UNSTABLE
    assert named[1] == offset(2)
    assert store.fetch("g", "t", None, require_stable=True) == named
    assert store.fetch("g", "t", None)[0] == offset(1)


def test_removed_offset_leaves_nothing_behind() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset())
    store.remove("g", "t", 1)
    store.remove("g", "u", 0)
    store.remove("h", "t", 0)
    assert store.of("g") == {"t": {0: offset()}}
    store.remove("g", "t", 0)
    assert store.of("g") == {}
    assert store.keys("g") == set()


def test_knows_what_is_being_written() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset())
    store.begin("g", [("t", 1), ("t", 2)])
    store.begin("g", [("t", 1)])
    store.begin("h", [("t", 9)])
    assert store.keys("g") == {("t", 0), ("t", 1), ("t", 2)}
    assert store.keys_of_topic("t") == {"g": {("t", 0), ("t", 1), ("t", 2)}, "h": {("t", 9)}}
    store.end("g", [("t", 1), ("t", 2)])
    assert store.keys("g") == {("t", 0), ("t", 1)}
    store.end("g", [("t", 1)])
    store.end("h", [("t", 9)])
    assert store.keys_of_topic("t") == {"g": {("t", 0)}}


KEYS = st.tuples(st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2))


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 9))))
def test_holds_what_a_plain_dict_holds(steps: list[tuple[bool, tuple[str, str, int], int]]) -> None:
    store, plain = OffsetStore(unlimited()), {}
    for puts, key, number in steps:
        if puts:
            store.put(*key, offset(number))
            plain[key] = number
        else:
            store.remove(*key)
            plain.pop(key, None)
        for group_id in "gh":
            flat = {
                (group_id, t, p): one.offset
                for t, partitions in store.of(group_id).items()
                for p, one in partitions.items()
            }
            assert flat == {key: number for key, number in plain.items() if key[0] == group_id}


@for_each(
    "empty_group, since",
    [
        (group(ClassicGroupState.EMPTY, protocol_type=None), 1000),
        (group(ClassicGroupState.EMPTY), 5000),
        (group(ClassicGroupState.EMPTY, since_ms=None), 1000),
        (group(ClassicGroupState.EMPTY, protocol_type="connect"), 5000),
        (group(ClassicGroupState.STABLE, subscribed=frozenset("t")), 1000),
        (group(ClassicGroupState.STABLE, subscribed=None), None),
        (group(ClassicGroupState.PREPARING_REBALANCE, subscribed=frozenset()), None),
        (group(ClassicGroupState.COMPLETING_REBALANCE, subscribed=frozenset()), None),
        (group(ClassicGroupState.DEAD, protocol_type=None), None),
    ],
)
def test_retention_start_depends_on_the_group(empty_group: ClassicGroup, since: int | None) -> None:
    start = empty_group.retention_start()
    assert (start and start(offset(committed_ms=1000))) == since


def test_retention_is_over_with_its_last_millisecond() -> None:
    assert not is_expired(offset(), 1000, 1999, 1000)
    assert is_expired(offset(), 1000, 2000, 1000)


def test_an_expiry_of_the_clients_own_goes_before() -> None:
    assert not is_expired(offset(expires_ms=9000), 1000, 8999, 1000)
    assert is_expired(offset(expires_ms=1500), 1000, 1500, 1000)


def test_topics_that_members_read_never_expire() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset())
    store.put("g", "u", 0, offset())
    stable = group(ClassicGroupState.STABLE, subscribed=frozenset("t"))
    assert store.expired(stable, 10_000, 1000) == {("u", 0)}
    assert store.expired(stable, 1500, 1000) == set()


def test_offset_with_a_commit_under_way_does_not_expire() -> None:
    store = OffsetStore(unlimited())
    store.put("g", "t", 0, offset())
    simple = group(ClassicGroupState.EMPTY, protocol_type=None)
    store.begin("g", [("t", 0)])
    assert store.expired(simple, 10_000, 1000) == set()
    store.end("g", [("t", 0)])
    assert store.expired(simple, 10_000, 1000) == {("t", 0)}
