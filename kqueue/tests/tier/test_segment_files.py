from __future__ import annotations

import pytest
from crc32c import crc32c

from kqueue.log.segment import Segment
from kqueue.testing.tier_faults import FaultyTierStore, truncated
from kqueue.tests.tier.segment_entries import entry
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.segment_object import parts_of
from kqueue.tier.read_only import ReadOnlyFile
from kqueue.tier.segment_files import SegmentFilesStorage, read_indexes
from kqueue.tier.stores.memory import MemoryTierStore

INDEXES = (b"i" * 16, b"t" * 12, b"x" * 34, b"s" * 10, b"e" * 8)
NAME = f"{5:020d}"


def files_of(indexes: tuple[bytes, ...] = INDEXES) -> SegmentFilesStorage:
    segment = entry(5, 9, size=1000, indexes=parts_of(indexes))
    store = MemoryTierStore()
    store.put(segment.key(ORDERS), [b"b" * 1000, *indexes], 1000 + sum(map(len, indexes)))
    return SegmentFilesStorage(ChunkCache(store, chunk_bytes=300), ORDERS, segment, b"".join(indexes), "memory:///x")


def test_folder_has_the_files_of_the_segment() -> None:
    files = files_of()
    assert [(each.name, each.size) for each in files.list("orders-0")] == [
        (f"{NAME}.index", 16),
        (f"{NAME}.log", 1000),
        (f"{NAME}.timeindex", 12),
        (f"{NAME}.txnindex", 34),
    ]
    assert files.read(f"orders-0/{NAME}.index") == INDEXES[0]
    assert files.read(f"orders-0/{NAME}.txnindex") == files.aborted == INDEXES[2]
    assert files.read(f"orders-0/{NAME}.log") == b"b" * 1000
    assert files.exists("orders-0")
    assert files.exists(f"orders-0/{NAME}.log")
    assert not files.exists("orders-1")
    assert (files.free_bytes(), files.total_bytes()) == (0, None)


def test_segment_without_aborted_transactions_has_no_transaction_index() -> None:
    files = files_of((b"i" * 16, b"t" * 12, b"", b"s" * 10, b"e" * 8))
    assert not files.exists(f"orders-0/{NAME}.txnindex")
    segment = Segment.open(files, files.folder, 5, 0, sizes=files.sizes)
    assert segment.txnindex.read() == []
    assert segment.size == 1000


def test_missing_file_and_folder_are_not_found() -> None:
    files = files_of()
    for call in (lambda: files.open("orders-0/x.log"), lambda: files.list("orders-1")):
        with pytest.raises(FileNotFoundError):
            call()


def test_batches_end_where_the_indexes_begin() -> None:
    file = files_of().open(f"orders-0/{NAME}.log")
    assert isinstance(file, ReadOnlyFile)
    assert file.size == 1000
    assert file.read_at(990, 100) == b"b" * 10
    assert file.read_at(1000, 10) == b""
    assert file.region(10, 20).read() == b"b" * 20
    assert file.is_cached(0, 30)
    assert not file.is_cached(0, 400)
    assert (file.fileno(), file.age_ms()) == (None, None)
    file.close()


def test_indexes_with_a_wrong_checksum_are_read_once_more_and_then_refused() -> None:
    whole = b"".join(INDEXES)
    segment = entry(5, 9, size=100, indexes=parts_of(INDEXES), indexes_crc=crc32c(whole))
    store = FaultyTierStore(MemoryTierStore())
    store.put(segment.key(ORDERS), [b"b" * 100, whole], 100 + len(whole))
    assert read_indexes(store, ORDERS, segment) == whole
    store.fail(truncated(), times=1)
    assert read_indexes(store, ORDERS, segment) == whole
    store.fail(truncated(), times=2)
    with pytest.raises(TierCorrupt, match="the checksum of its indexes is wrong"):
        read_indexes(store, ORDERS, segment)
    with pytest.raises(TierCorrupt):
        read_indexes(store, ORDERS, segment._replace(indexes=parts_of([*INDEXES[:4], b"longer than it is"])))


def test_segment_without_indexes_needs_no_request() -> None:
    segment = entry(5, 9, indexes=parts_of([b""] * 5), indexes_crc=0)
    assert read_indexes(MemoryTierStore(), ORDERS, segment) == b""
