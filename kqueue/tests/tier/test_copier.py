from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kqueue.base.errors import CorruptBatch, StorageFailed
from kqueue.log.formats.filenames import INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.records.batch import ABORT, COMMIT
from kqueue.storage.memory import MemoryFile
from kqueue.testing.tier_faults import Crash, FaultyTierStore, TierFault, crash_at, unavailable
from kqueue.tests.log.helpers import append, end_transaction, flush, open_log
from kqueue.tests.tier.tiered_logs import (
    ORDERS,
    claim,
    copy_all,
    keys_named_by,
    log_bytes,
    read_all,
    reader_of,
    to_copy,
)
from kqueue.tier.copier import READ_BYTES, SegmentToCopy, copy_segment
from kqueue.tier.errors import LeaderFenced, ObjectChanged, TierUnavailable
from kqueue.tier.formats.segment_object import TRAILER, decode_entry, decode_trailer, split_indexes
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


def transactional_log() -> Log:
    """Return a log of three segments, over which transactions of the producers 5 and 6 go on."""
    log = open_log()
    append(log, b"0", producer_id=5, epoch=0, base_sequence=0, transactional=True)
    append(log, b"1", producer_id=6, epoch=0, base_sequence=0, transactional=True)
    log.roll()
    append(log, b"2", producer_id=5, epoch=0, base_sequence=1, transactional=True, leader_epoch=1)
    end_transaction(log, ABORT, 5, leader_epoch=1)
    log.roll()
    end_transaction(log, COMMIT, 6, leader_epoch=2)
    append(log, b"5", leader_epoch=2)
    log.roll()
    return log


def tier_of(log: Log, leader_epoch: int = 3) -> tuple[FaultyTierStore, Manifest]:
    """Return a tier that the leader of this log has claimed, without a segment."""
    store = FaultyTierStore(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, leader_epoch)
    store.calls.clear()
    return store, manifest


def file_of(log: Log, base_offset: int, suffix: str = LOG) -> MemoryFile:
    file = log.storage.open(f"t-0/{file_name(base_offset, suffix)}")
    assert isinstance(file, MemoryFile)
    return file


def objects(store: FaultyTierStore) -> set[str]:
    return {each.key for each in store.inner.list("")}


def test_copied_segments_are_read_back_byte_for_byte() -> None:
    log = open_log()
    for number in range(30):
        append(log, b"%d" % number * 10, leader_epoch=number // 11)
        if number % 7 == 6:
            flush(log)
            log.roll()
    store, manifest = tier_of(log)
    copied = copy_all(store, manifest, log, leader_epoch=3)
    assert len(copied) == 4
    assert manifest.end_offset == 28
    fresh = Manifest.open(store, ORDERS)
    assert list(fresh.segments()) == copied
    assert read_all(reader_of(store), fresh) == log_bytes(log, 28)
    assert reader_of(store).epochs_at(fresh, 28) == [(0, 0), (1, 11), (2, 22)]


def test_object_holds_the_files_of_the_segment_and_its_entry() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    entry = copy_all(store, manifest, log, leader_epoch=3)[1]
    body = store.get(entry.key(ORDERS), max_bytes=1 << 20).body
    assert body[: entry.size] == bytes(file_of(log, 2)._data)
    _, times, aborted, snapshot, epochs = split_indexes(entry.indexes, body[entry.size :])
    assert times == bytes(file_of(log, 2, TIMEINDEX)._data)
    assert aborted == bytes(file_of(log, 2, TXNINDEX)._data)
    assert snapshot == bytes(file_of(log, 4, SNAPSHOT)._data)
    assert epochs == b"0\n2\n0 0\n1 2\n"
    crc, size = decode_trailer(body[-TRAILER.size :], "it")
    assert decode_entry(body[-TRAILER.size - size : -TRAILER.size], crc, "it") == entry


def test_entry_says_from_where_on_transactions_are_open() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    copied = copy_all(store, manifest, log, leader_epoch=3)
    assert [(each.unstable_offset, each.epochs) for each in copied] == [
        (0, ((0, 0),)),
        (1, ((1, 2),)),
        (6, ((2, 4),)),
    ]


def test_segment_of_a_new_leader_counts_from_the_end_of_the_tier_on() -> None:
    log = open_log()
    for number in range(10):
        append(log, b"%d" % number, leader_epoch=number // 4)
    log.roll()
    store, manifest = tier_of(log)
    [source] = to_copy(log, 6)
    assert source.start_offset == 6
    manifest.raise_start(3, 6)
    copy_all(store, manifest, log, leader_epoch=3, tiered_end=6)
    [entry] = manifest.segments()
    assert (entry.base_offset, entry.start_offset, entry.epochs) == (0, 6, ((1, 6), (2, 8)))
    assert reader_of(store).read(manifest, 6, 1 << 20, end_offset=10).records == log_bytes(log, 10, 6)


# --- what is wrong on disk


@pytest.mark.parametrize("position", [*range(8), *range(16, 79, 5), *range(79, 87), *range(95, 150, 5)])
def test_damaged_segment_is_not_copied_and_nothing_is_announced(position: int) -> None:
    log = open_log()
    append(log, b"a" * 10)
    append(log, b"b" * 10)
    log.roll()
    store, manifest = tier_of(log)
    file_of(log, 0)._data[position] ^= 0x81
    with pytest.raises(CorruptBatch, match=r"t-0/00000000000000000000\.log: .*; it is not copied into the tier"):
        copy_all(store, manifest, log, leader_epoch=3)
    assert store.calls == []


@pytest.mark.parametrize("content", [None, b"", b"x", b"\0" * 34, b"\xff" * 1000])
def test_indexes_on_disk_may_be_missing_or_damaged(content: bytes | None) -> None:
    whole, log = transactional_log(), transactional_log()
    for base in (0, 2, 4):
        for suffix in (INDEX, TIMEINDEX, TXNINDEX):
            path = f"t-0/{file_name(base, suffix)}"
            if log.storage.exists(path):
                log.storage.remove(path)
                if content is not None:
                    log.storage.write_atomic(path, content)
    store, manifest = tier_of(log)
    assert copy_all(store, manifest, log, leader_epoch=3) == copy_all(*tier_of(whole), whole, leader_epoch=3)


def test_aborted_transaction_whose_begin_is_no_longer_known_is_taken_from_the_index() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    source = to_copy(log, 0)[1]
    log.storage.remove(f"t-0/{file_name(2, SNAPSHOT)}")
    manifest.raise_start(3, 2)
    entry = copy(store, manifest, replace(source, snapshots=(), bases=(2,)))
    assert reader_of(store).aborted(manifest, 2, 4)[0] == [AbortedTxn(5, 0, 3, 1)]
    assert entry.indexes.transaction_index > 0


def copy(store: FaultyTierStore, manifest: Manifest, source: SegmentToCopy, **options: object) -> TieredSegment:
    defaults = {"object_id": "a" * 32, "leader_epoch": 3, "broker": 1, "now_ms": 5}
    return copy_segment(store, manifest, source, **defaults | options)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_missing_or_damaged_producer_snapshots_are_computed(content: bytes | None) -> None:
    whole, log = transactional_log(), transactional_log()
    for offset in (2, 4, 6):
        log.storage.remove(f"t-0/{file_name(offset, SNAPSHOT)}")
        if content is not None:
            log.storage.write_atomic(f"t-0/{file_name(offset, SNAPSHOT)}", content)
    store, manifest = tier_of(log)
    whole_store, whole_manifest = tier_of(whole)
    copied = copy_all(store, manifest, log, leader_epoch=3)
    assert [each._replace(indexes_crc=0) for each in copied] == [
        each._replace(indexes_crc=0) for each in copy_all(whole_store, whole_manifest, whole, leader_epoch=3)
    ]
    for offset in (2, 4, 6):
        producers = reader_of(store).producers_at(manifest, offset)
        expected = decode_snapshot(bytes(file_of(whole, offset, SNAPSHOT)._data), offset)
        assert {key: (each.epoch, each.transaction_offset) for key, each in producers.items()} == {
            key: (each.epoch, each.transaction_offset) for key, each in expected.items()
        }


def test_segment_that_was_deleted_meanwhile_is_not_announced() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    [source, *_] = to_copy(log, 0)
    log.storage.remove(source.path(LOG))
    with pytest.raises(FileNotFoundError):
        copy(store, manifest, source)
    assert store.calls == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file._data.__setitem__(100, 1), "gave other bytes when it was read again"),
        (lambda file: file.truncate(100), "expected .* bytes, it ends before"),
    ],
)
def test_segment_that_changes_while_it_is_sent_is_not_copied(
    change: Callable[[MemoryFile], None], message: str
) -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    store.fail(TierFault("put", before=lambda call: change(file_of(log, 0))))
    with pytest.raises(StorageFailed, match=message):
        copy_all(store, manifest, log, leader_epoch=3)
    assert list(manifest.segments()) == []
    assert objects(store) == {ORDERS.manifest_key}


# --- sending


def test_put_can_be_repeated_and_each_byte_is_asked_for() -> None:
    log = open_log()
    for _ in range(5):
        append(log, b"a" * (READ_BYTES // 2))
    log.roll()
    spent: list[int] = []

    class Repeating(FaultyTierStore):
        def put(self, key, parts, size):  # type: ignore[no-untyped-def]
            first = b"".join(parts)
            assert first == b"".join(parts)
            super().put(key, parts, size)

    store = Repeating(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, 3)
    [source] = to_copy(log, 0)
    copy(store, manifest, source, spend=spent.append)
    assert sum(spent) == 3 * source.size
    assert max(spent) == READ_BYTES
    assert read_all(reader_of(store, chunk_bytes=READ_BYTES), manifest) == log_bytes(log, 5)


def test_error_of_the_throttle_leaves_a_copy_that_the_next_one_replaces() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    [source, *_] = to_copy(log, 0)

    def stop(size: int) -> None:
        raise TierUnavailable("the broker stops")

    with pytest.raises(TierUnavailable):
        copy(store, manifest, source, spend=stop)
    assert len(manifest.root.copying) == 1
    copy(store, manifest, source, object_id="b" * 32)
    assert [each.object_id for each in manifest.segments()] == ["b" * 32]
    assert objects(store) == keys_named_by(store, manifest)


def test_copy_that_took_place_is_not_made_again() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    copy_all(store, manifest, log, leader_epoch=3, limit=1)
    with pytest.raises(ObjectChanged):
        copy_all(store, manifest, log, leader_epoch=3, tiered_end=0)
    assert objects(store) == keys_named_by(store, manifest)


@pytest.mark.parametrize("hook", ["before", "after"])
def test_crash_at_any_call_loses_nothing_and_leaves_nothing(hook: str) -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    copy_all(store, manifest, log, leader_epoch=3)
    calls = len(store.calls)
    for number in range(1, calls + 1):
        store, manifest = tier_of(log)
        setattr(store, hook, crash_at(number))
        with pytest.raises(Crash):
            copy_all(store, manifest, log, leader_epoch=3)
        store.mend()
        manifest = Manifest.open(store, ORDERS)
        claim(manifest, log, 4)
        copy_all(store, manifest, log, leader_epoch=4)
        assert read_all(reader_of(store), manifest) == log_bytes(log, 6)
        assert objects(store) == keys_named_by(store, manifest)


@pytest.mark.parametrize("hook", ["before", "after"])
def test_leader_that_is_deposed_while_it_copies_leaves_nothing(hook: str) -> None:
    log = transactional_log()
    for number in range(1, 4):
        store, manifest = tier_of(log)
        successor = Manifest(store.inner, ORDERS)
        seen: list[str] = []

        def take_over(operation: str, key: str) -> None:
            seen.append(operation)  # noqa: B023
            if len(seen) == number:  # noqa: B023
                successor.refresh()  # noqa: B023
                claim(successor, log, 4)  # noqa: B023

        setattr(store, hook, take_over)
        if hook == "after" and number == 3:
            copy_all(store, manifest, log, leader_epoch=3, limit=1)  # it was finished before
        else:
            with pytest.raises(LeaderFenced):
                copy_all(store, manifest, log, leader_epoch=3, limit=1)
        assert objects(store) == keys_named_by(store.inner, successor)


def test_object_of_a_deposed_leader_that_cannot_be_deleted_is_still_a_fence() -> None:
    log = transactional_log()
    store, manifest = tier_of(log)
    store.fail(unavailable("delete"))
    store.fail(TierFault("put", before=lambda call: claim(Manifest.open(store.inner, ORDERS), log, 4)))
    with pytest.raises(LeaderFenced):
        copy_all(store, manifest, log, leader_epoch=3)
