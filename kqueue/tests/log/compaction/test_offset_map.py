"""S5.2: the offset map against a dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.compaction import offset_map
from kqueue.log.compaction.offset_map import SLOT_BYTES, OffsetMap

KEYS = st.one_of(st.none(), st.binary(max_size=3), st.integers(0, 50).map(lambda number: b"key-%d" % number))
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.integers(1, 4)), max_size=20), max_size=8)


@given(
    batches=BATCHES,
    slots=st.integers(1, 60),
    load_factor=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    start=st.integers(0, 1 << 40),
)
def test_offset_map_equals_a_dict_until_it_is_full(
    batches: list[list[tuple[bytes | None, int]]], slots: int, load_factor: float, start: int
) -> None:
    latest = OffsetMap(slots * SLOT_BYTES, load_factor, start_offset=start)
    expected: dict[bytes, int] = {}
    offset = start
    for rows in batches:
        deltas = [sum(step for _, step in rows[: number + 1]) for number in range(len(rows))]
        taken = latest.put_all([key for key, _ in rows], deltas, offset)
        for (key, _), delta in list(zip(rows, deltas, strict=True))[:taken]:
            if key is not None:
                expected[key] = offset + delta
        if taken < len(rows):
            key = rows[taken][0]
            assert key is not None
            assert key not in expected
            assert len(expected) == latest.capacity
            assert latest.count == latest.capacity
            break
        offset += (deltas[-1] if deltas else 0) + 1
        latest.end_offset = offset
    assert latest.count == len(expected) <= latest.capacity
    assert {key: latest.get(key) for key in expected} == expected
    assert latest.get_all([None, b"never put", *expected]) == [-1, -1, *expected.values()]
    span = min(latest.end_offset - start, 500)
    marks = latest.latest_in(start, start + span)
    assert marks is not None
    assert [start + at for at, mark in enumerate(marks) if mark] == sorted(
        at for at in expected.values() if at < start + span
    )


def test_memory_stays_below_the_bound_and_follows_what_is_needed() -> None:
    for memory_bytes in (SLOT_BYTES * 3, 1000, 100_000):
        full_size = OffsetMap(memory_bytes)
        assert len(full_size.slots) * full_size.slots.itemsize <= memory_bytes
        assert 1 <= full_size.capacity <= 0.9 * memory_bytes / SLOT_BYTES
    small = OffsetMap(1 << 30, records_max=100)
    assert len(small.slots) * small.slots.itemsize < 200 * SLOT_BYTES
    assert small.put_all([b"%d" % number for number in range(100)], range(100), 0) == 100


def test_a_map_holds_at_least_one_key() -> None:
    smallest = OffsetMap(0, 0.01)
    assert smallest.put(b"a", 5)
    assert smallest.put(b"a", 6)
    assert not smallest.put(b"b", 7)
    assert smallest.get(b"a") == 6


def test_offsets_outside_of_the_map_are_ignored() -> None:
    latest = OffsetMap(1000, start_offset=10)
    latest.put(b"a", 12)
    latest.end_offset = 20
    assert latest.latest_in(9, 12) is None
    assert latest.latest_in(18, 21) is None
    assert latest.latest_in(10, 20) == bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 0])


def test_the_window_moves_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "WINDOW_OFFSETS", 10)
    latest = OffsetMap(10_000)
    latest.put_all([b"%d" % (number % 30) for number in range(100)], range(100), 0)
    latest.end_offset = 100
    for start in (0, 5, 9, 50, 68, 93, 20):
        marks = latest.latest_in(start, start + 7)
        assert marks is not None
        assert list(marks) == [offset >= 70 for offset in range(start, start + 7)]
    assert latest.latest_in(0, 11) is None, "more than a window"


def test_sparse_records_are_looked_up_by_key() -> None:
    latest = OffsetMap(10_000)
    latest.put(b"a", 0)
    latest.put(b"b", 1 << 40)
    latest.end_offset = (1 << 40) + 1
    assert latest.latest_in(0, 10) is None
