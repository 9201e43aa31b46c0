from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.time_index import TimeEntry, TimeIndex
from kqueue.storage import MemoryStorage

ROWS = st.lists(st.tuples(st.integers(-20, 50), st.integers(1, 50)), max_size=40)


def build(base: int, steps: list[tuple[int, int]]) -> tuple[MemoryStorage, TimeIndex, list[TimeEntry]]:
    """The entries that should be there: only times greater than all before."""
    storage = MemoryStorage()
    index = TimeIndex(storage, "t", base, create=True)
    rows: list[TimeEntry] = []
    time, offset = 0, base
    for time_step, offset_step in steps:
        time, offset = time + time_step, offset + offset_step
        if time > (rows[-1].timestamp if rows else -1):
            rows.append(TimeEntry(time, offset))
        index.maybe_append(time, offset)
    return storage, index, rows


def test_the_format_is_kafkas() -> None:
    """S3.4: eight bytes of time, four of relative offset."""
    storage, _, _ = build(1000, [(5, 1), (7, 4)])
    assert storage.read("t").hex(" ", 4) == "00000000 00000005 00000001 00000000 0000000c 00000005"


@given(ROWS, st.integers(-30, 1500), st.booleans())
def test_lookup_finds_the_last_entry_at_or_before(steps: list[tuple[int, int]], time: int, mapped: bool) -> None:
    """S4.2"""
    _, index, rows = build(100, steps)
    if mapped:
        index.entries.unload()
    assert index.lookup(time) == max((row for row in rows if row.timestamp <= time), default=TimeEntry(-1, 100))
    assert index.last() == (rows[-1] if rows else TimeEntry(-1, 100))


@given(ROWS, st.integers(0, 2000), st.integers(0, 5000))
def test_truncation_keeps_what_lies_before_and_goes_on_from_there(
    steps: list[tuple[int, int]], ahead: int, time: int
) -> None:
    _, index, rows = build(100, steps)
    index.truncate_to(100 + ahead)
    kept = [row for row in rows if row.offset < 100 + ahead]
    index.maybe_append(time, 3000)
    if time > (kept[-1].timestamp if kept else -1):
        kept.append(TimeEntry(time, 3000))
    assert [index._at(number) for number in range(index.entries.count)] == kept


def test_a_log_without_times_has_no_entries() -> None:
    _, index, _ = build(0, [])
    index.maybe_append(-1, 5)
    assert index.entries.count == 0


def test_impossible_time_index_is_corrupt() -> None:
    storage = MemoryStorage()
    storage.open("t", create=True).append(bytes(8))
    with pytest.raises(CorruptIndex):
        TimeIndex(storage, "t", 0).lookup(5)
    _, index, _ = build(0, [(5, 10), (5, 10)])
    index.check()
    index.entries.append(bytes(12))
    with pytest.raises(CorruptIndex, match="lies before the first"):
        index.check()


def test_replacing_forgets_the_old_greatest_time() -> None:
    _, index, _ = build(0, [(500, 10)])
    index.replace(b"")
    index.maybe_append(3, 1)
    assert index.last() == (3, 1)
