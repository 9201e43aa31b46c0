from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.checkpoints import LOG_STARTS, decode_offsets
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX
from kqueue.log.log import Log
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.verify import verify_storage
from kqueue.storage import Storage
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_by_next_leader, copied_log
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore
from kqueue.tier.tier_storage import TierStorage


def storage_of(store: TierStore, *partitions: TieredPartition) -> Storage:
    return TierStorage(store, ChunkCache(store, chunk_bytes=300), partitions or (ORDERS,))


def values(log: LogFolder) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in log.records()]


def local_values(log: Log, end: int) -> list[tuple[int, bytes | None]]:
    return [one for one in values(LogFolder(log.storage, log.folder)) if one[0] < end]


def test_records_are_those_of_the_copied_segments() -> None:
    store = MemoryTierStore()
    local = copied_log(store)
    end = Manifest.open(store, ORDERS).end_offset
    log = LogFolder(storage_of(store), "orders-0")
    assert values(log) == local_values(local, end)
    assert (log.start_offset, log.end_offset, log.topic_id) == (0, end, ORDERS.topic_id)


def test_verification_finds_nothing_wrong() -> None:
    store = MemoryTierStore()
    copied_log(store)
    report = verify_storage(storage_of(store), "orders-0", deep=True)
    assert (report.is_sound, report.notes) == (True, [])
    assert report.segments > 3
    assert verify_storage(storage_of(store), deep=True).is_sound


def test_segments_of_two_leaders_have_each_offset_once() -> None:
    store = MemoryTierStore()
    local = copied_by_next_leader(store, copied_log(store))
    manifest = Manifest.open(store, ORDERS)
    assert any(segment.start_offset > segment.base_offset for segment in manifest.segments())
    storage = storage_of(store)
    assert values(LogFolder(storage, "orders-0")) == local_values(local, manifest.end_offset)
    report = verify_storage(storage, "orders-0", deep=True)
    assert (report.errors, report.notes) == ([], [])


def test_part_of_a_segment_has_index_entries_of_its_own() -> None:
    store = MemoryTierStore()
    copied_by_next_leader(store, copied_log(store, size=1500), size=1500)
    part = next(one for one in Manifest.open(store, ORDERS).segments() if one.start_offset > one.base_offset)
    name = f"{part.start_offset:020d}"
    storage = storage_of(store)
    sizes = {entry.name: entry.size for entry in storage.list("orders-0")}
    assert 0 < sizes[name + LOG] < part.size
    assert 0 < sizes[name + INDEX] < part.indexes.offset_index
    assert 0 < len(storage.read(f"orders-0/{name}{TIMEINDEX}")) < part.indexes.time_index
    assert verify_storage(storage, "orders-0").is_sound


def test_records_that_an_unclean_election_undid_are_not_shown() -> None:
    store = MemoryTierStore()
    former = copied_log(store)
    before = Manifest.open(store, ORDERS).end_offset
    local = copied_by_next_leader(store, former, kept=before - 3)
    manifest = Manifest.open(store, ORDERS)
    assert any(segment.is_cut for segment in manifest.segments())
    storage = storage_of(store)
    assert values(LogFolder(storage, "orders-0")) == local_values(local, manifest.end_offset)
    report = verify_storage(storage, "orders-0", deep=True)
    assert (report.errors, report.notes) == ([], [])


def test_log_start_within_a_batch_begins_the_log() -> None:
    store = MemoryTierStore()
    copied_log(store)
    manifest = Manifest.open(store, ORDERS)
    manifest.raise_start(0, 10)
    storage = storage_of(store)
    assert decode_offsets(storage.read(LOG_STARTS)) == {("orders", 0): 10}
    assert values(LogFolder(storage, "orders-0"))[0][0] == 10
    assert verify_storage(storage, "orders-0").is_sound


def test_lost_object_is_a_finding() -> None:
    store = MemoryTierStore()
    copied_log(store)
    second = list(Manifest.open(store, ORDERS).segments())[1]
    store.delete([second.key(ORDERS)])
    report = verify_storage(storage_of(store), "orders-0")
    assert not report.is_sound
    assert f"{second.base_offset:020d}.log" in str([finding.file for finding in report.errors])


def test_damaged_batch_is_a_finding() -> None:
    store = MemoryTierStore()
    copied_log(store)
    second = list(Manifest.open(store, ORDERS).segments())[1]
    key = second.key(ORDERS)
    data = bytearray(store.get(key, max_bytes=1 << 20).body)
    data[100] ^= 1
    store.put(key, (data,), len(data))
    report = verify_storage(storage_of(store), "orders-0")
    assert any(f"{second.base_offset:020d}.log" in finding.file for finding in report.errors)


@pytest.mark.parametrize("kept", [0, 50, 400])
def test_objects_that_were_cut_off_are_findings(kept: int) -> None:
    store = MemoryTierStore()
    copied_by_next_leader(store, copied_log(store))
    for segment in list(Manifest.open(store, ORDERS).segments()):
        key = segment.key(ORDERS)
        data = store.get(key, max_bytes=1 << 20).body[:kept]
        store.put(key, (data,), len(data))
    assert not verify_storage(storage_of(store)).is_sound


def test_damaged_manifest_is_an_error_of_its_partition_only() -> None:
    store = MemoryTierStore()
    copied_log(store)
    other = TieredPartition("orders", ORDERS.topic_id, 1)
    copied_log(store, partition=other)
    store.put(other.manifest_key, (b"x",), 1)
    storage = storage_of(store, ORDERS, other)
    assert LogFolder(storage, "orders-0").size > 0
    with pytest.raises(StorageFailed, match="manifest of orders-1"):
        LogFolder(storage, "orders-1")
    assert [finding.file for finding in verify_storage(storage).errors] == ["orders-1"]


def test_nothing_can_be_written() -> None:
    store = MemoryTierStore()
    copied_log(store)
    storage = storage_of(store)
    file = storage.open("orders-0/00000000000000000000.log")
    changes = [
        lambda: storage.open("orders-0/x", create=True),
        lambda: storage.write_atomic(LOG_STARTS, b""),
        lambda: storage.remove(LOG_STARTS),
        lambda: storage.rename(LOG_STARTS, "other"),
        lambda: storage.make_folder("a"),
        lambda: storage.sync_folder(""),
        lambda: storage.lock(".lock"),
        lambda: file.append(b""),
        lambda: file.truncate(0),
        file.sync,
    ]
    for change in changes:
        with pytest.raises(StorageFailed, match="never change"):
            change()


def test_names_that_are_not_there_are_missing_files() -> None:
    storage = storage_of(MemoryTierStore())
    assert not storage.exists("orders-0/x")
    assert not storage.exists("other-0/x")
    assert storage.exists("orders-0")
    for path in ("x", "orders-0/x", "other-0/x"):
        with pytest.raises(FileNotFoundError):
            storage.open(path)
    with pytest.raises(FileNotFoundError):
        storage.list("other-0")
