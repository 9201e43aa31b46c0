from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.offset_index import IndexEntry, OffsetIndex
from kqueue.storage import MemoryStorage

ROWS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=40)


def build(base: int, steps: list[tuple[int, int]]) -> tuple[MemoryStorage, OffsetIndex, list[IndexEntry]]:
    storage = MemoryStorage()
    index = OffsetIndex(storage, "i", base, create=True)
    rows, offset, position = [], base, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        rows.append(IndexEntry(offset, position))
        index.append(offset, position)
    return storage, index, rows


def test_the_format_is_kafkas() -> None:
    """S3.4: relative offset and position, four bytes each."""
    storage, _, _ = build(1000, [(5, 100), (7, 4096)])
    assert storage.read("i").hex(" ", 4) == "00000005 00000064 0000000c 00001064"


@given(ROWS, st.integers(0, 2000), st.booleans())
def test_lookup_finds_the_last_entry_at_or_before(steps: list[tuple[int, int]], ahead: int, mapped: bool) -> None:
    _, index, rows = build(100, steps)
    if mapped:
        index.entries.unload()
    assert index.lookup(100 + ahead) == max(
        (row for row in rows if row.offset <= 100 + ahead), default=IndexEntry(100, 0)
    )
    assert index.by_position(ahead) == max((row for row in rows if row.position <= ahead), default=IndexEntry(100, 0))
    assert index.last() == (rows[-1] if rows else IndexEntry(100, 0))


@given(ROWS, st.integers(0, 2000))
def test_truncation_keeps_what_lies_before(steps: list[tuple[int, int]], ahead: int) -> None:
    storage, index, rows = build(100, steps)
    index.truncate_to(100 + ahead)
    kept = [row for row in rows if row.offset < 100 + ahead]
    assert [index._at(number) for number in range(index.entries.count)] == kept
    assert len(storage.read("i")) == 8 * len(kept)


def test_impossible_offset_index_is_corrupt() -> None:
    storage = MemoryStorage()
    storage.open("i", create=True).append(bytes(12))
    with pytest.raises(CorruptIndex):
        OffsetIndex(storage, "i", 0).lookup(5)
    with pytest.raises(CorruptIndex):
        OffsetIndex(storage, "i", 0).check()
    _, index, _ = build(0, [(5, 10), (5, 10)])
    index.check()
    index.entries.append(bytes(8))  # zeros, as a torn page leaves them
    with pytest.raises(CorruptIndex, match="lies before the first"):
        index.check()
