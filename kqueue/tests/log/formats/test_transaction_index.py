from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.transaction_index import BLOCK_ENTRIES, ENTRY, AbortedTxn, TransactionIndex, decode_aborted
from kqueue.storage import MemoryStorage
from kqueue.tests.tables import for_each

ROWS = [AbortedTxn(7, 0, 5, 3), AbortedTxn(8, 3, 9, 10), AbortedTxn(7, 12, 20, 21)]


def build() -> tuple[MemoryStorage, TransactionIndex]:
    storage = MemoryStorage()
    index = TransactionIndex(storage, "x", exists=False)
    for row in ROWS:
        index.append(row)
    return storage, index


def test_the_file_comes_with_the_first_entry() -> None:
    storage = MemoryStorage()
    index = TransactionIndex(storage, "x", exists=False)
    assert index.read() == []
    index.truncate_to(5)
    index.clear()
    assert not storage.exists("x")
    index.append(ROWS[0])
    assert (
        storage.read("x").hex()
        == "0000" + "0000000000000007" + "0000000000000000" + "0000000000000005" + "0000000000000003"
    )


def test_entries_read_back_from_a_file_that_was_there() -> None:
    storage, _ = build()
    assert TransactionIndex(storage, "x", exists=True).read() == ROWS


@for_each("offset, kept", [(5, 0), (6, 1), (20, 2), (21, 3)])
def test_truncation_drops_transactions_whose_marker_goes(offset: int, kept: int) -> None:
    _, index = build()
    index.truncate_to(offset)
    assert index.read() == ROWS[:kept]


def test_clearing_takes_even_what_is_corrupt() -> None:
    storage, index = build()
    storage.open("x").append(b"junk")
    with pytest.raises(CorruptIndex, match="no multiple of 34"):
        index.read()
    index.clear()
    assert index.read() == []


def test_another_version_is_corrupt() -> None:
    with pytest.raises(CorruptIndex, match="version 0 of aborted transactions, found 1"):
        list(decode_aborted(ENTRY.pack(1, *ROWS[0])))


@for_each("count", [0, 1, BLOCK_ENTRIES, 3 * BLOCK_ENTRIES + 7])
def test_entries_are_read_from_an_offset_on(count: int) -> None:
    index = TransactionIndex(MemoryStorage(), "x", exists=False)
    rows = [AbortedTxn(number, 3 * number, 3 * number + 1, 3 * number + 2) for number in range(count)]
    for row in rows:
        index.append(row)
    for offset in (0, 1, 2, 3, 400, 3 * count - 2, 3 * count):
        assert list(index.read_from(offset)) == [row for row in rows if row.last_offset >= offset]


def test_a_large_index_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    index = TransactionIndex(MemoryStorage(), "x", exists=False)
    for number in range(20 * BLOCK_ENTRIES):
        index.append(AbortedTxn(number, number, number, number + 1))
    sizes: list[int] = []
    entries = index._entries
    monkeypatch.setattr(
        TransactionIndex, "_entries", lambda _, number, count: sizes.append(count) or entries(number, count)
    )
    assert next(index.read_from(5000)).producer_id == 5000
    assert sum(sizes) < BLOCK_ENTRIES + 20


def test_a_large_index_that_was_cut_is_corrupt() -> None:
    storage = MemoryStorage()
    index = TransactionIndex(storage, "x", exists=False)
    for number in range(2 * BLOCK_ENTRIES):
        index.append(AbortedTxn(number, number, number, number + 1))
    storage.open("x").append(b"junk")
    with pytest.raises(CorruptIndex, match="no multiple of 34"):
        list(index.read_from(300))
