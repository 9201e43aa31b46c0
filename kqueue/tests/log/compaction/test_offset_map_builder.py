"""S5.2: the first pass, and the aborted transactions that it has to know."""

from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptIndex
from kqueue.log.compaction.engine import PYTHON
from kqueue.log.compaction.model import CleanerStats
from kqueue.log.compaction.offset_map_builder import OffsetMapBuilder, read_aborted
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.filenames import TXNINDEX, file_name
from kqueue.log.formats.transaction_index import ENTRY, AbortedTxn
from kqueue.records.batch import ABORT, COMMIT
from kqueue.storage import MemoryStorage
from kqueue.tests.log.compaction.helpers import FOLDER, config, new_log, put, sources_of
from kqueue.tests.log.helpers import end_transaction

THROTTLE = Throttle(float("inf"), lambda seconds: None, lambda: 0.0)


def aborted_of(storage: MemoryStorage, upto: int | None = None) -> list[AbortedTxn]:
    sizes = {entry.name: entry.size for entry in storage.list(FOLDER)}
    return read_aborted(storage, FOLDER, sources_of(storage, upto), sizes)


def write_txnindex(storage: MemoryStorage, base: int, *rows: AbortedTxn, rest: bytes = b"") -> None:
    storage.write_atomic(f"{FOLDER}/{file_name(base, TXNINDEX)}", b"".join(ENTRY.pack(0, *row) for row in rows) + rest)


def test_aborted_transactions_come_from_these_segments_and_from_later_ones() -> None:
    storage, log = new_log()
    for _ in range(3):
        put(log, (b"a", b"1"))
        log.roll()
    own, begun, later = (AbortedTxn(1, 0, 0, 0), AbortedTxn(2, 1, 3, 3), AbortedTxn(3, 2, 3, 3))
    write_txnindex(storage, 0, own)
    write_txnindex(storage, 3, begun, later, rest=b"half an ent")
    assert aborted_of(storage, upto=2) == [own, begun]
    assert aborted_of(storage) == [own, begun, later]
    assert aborted_of(storage, upto=0) == []
    write_txnindex(storage, 1, rest=b"half an ent")
    with pytest.raises(CorruptIndex):
        aborted_of(storage)


def test_the_map_excludes_markers_aborted_data_and_cleaned_batches() -> None:
    storage, log = new_log()
    put(log, (b"cleaned", b"1"), (b"b", b"1"), codec="zstd")
    log.roll()
    for number, kind in ((7, COMMIT), (8, ABORT)):
        put(log, (b"of %d" % number, b"1"), producer_id=number, epoch=0, base_sequence=0, transactional=True)
        end_transaction(log, kind, number)
    put(log, (None, b"no key"), (b"b", b"2"))
    log.roll()
    stats = CleanerStats()
    builder = OffsetMapBuilder(storage, FOLDER, config(), PYTHON, THROTTLE, stats)
    offset_map = builder.build(sources_of(storage), 1, aborted_of(storage))
    assert offset_map.get_all([b"cleaned", b"of 7", b"of 8", b"b", b""]) == [-1, 2, -1, 7, -1]
    assert (offset_map.start_offset, offset_map.end_offset, stats.map_entries, offset_map.count) == (1, 8, 2, 2)
    assert stats.bytes_read == sum(source.size for source in sources_of(storage))
