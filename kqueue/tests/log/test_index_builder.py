"""The entries that a segment's indexes hold, in recovery, repair and compaction alike."""

from __future__ import annotations

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.index_builder import POSITION_MAX, IndexBuilder


def entries(builder: IndexBuilder) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return list(INDEX_ENTRY.iter_unpack(builder.offset_index)), list(TIME_ENTRY.iter_unpack(builder.time_index))


def test_an_entry_for_each_interval() -> None:
    builder = IndexBuilder(100, 1000)
    for number in range(6):
        builder.add(number * 501, 100 + number, 5000 + number)
    assert entries(builder) == ([(2, 1002), (4, 2004)], [(5002, 2), (5004, 4)])
    builder.finish()
    builder.finish()
    assert entries(builder)[1] == [(5002, 2), (5004, 4), (5005, 5)]
    assert builder.max_timestamp == 5005


def test_times_that_do_not_grow_have_no_entry() -> None:
    builder = IndexBuilder(0, 0)
    for position, timestamp in ((0, 9), (1, 7), (2, 9), (3, 10)):
        builder.add(position, position, timestamp)
    assert entries(builder) == ([(1, 1), (2, 2), (3, 3)], [(9, 0), (10, 3)])


def test_the_batch_behind_damage_has_an_entry() -> None:
    builder = IndexBuilder(0, 10_000)
    builder.add(0, 0, -1)
    builder.resume()
    builder.add(200, 7, -1)
    builder.add(300, 8, -1)
    assert entries(builder) == ([(7, 200)], [])


def test_limits() -> None:
    builder = IndexBuilder(0, 0, bytes_max=24)
    for position in range(1, 5):
        builder.add(position, position, position)
    assert entries(builder) == ([(1, 1)], [(1, 1)]), "room for the entry that ends the time index is kept"
    builder.finish()
    assert len(builder.time_index) == 24
    far = IndexBuilder(0, 0)
    far.add(POSITION_MAX + 1, 1, 1)
    assert entries(far) == ([], [])


def test_aborted_transactions() -> None:
    builder = IndexBuilder(0, 0)
    aborted = [AbortedTxn(7, 0, 4, 2), AbortedTxn(8, 3, 9, 5)]
    for one in aborted:
        builder.add_aborted(one)
    assert list(decode_aborted(builder.transaction_index)) == aborted
