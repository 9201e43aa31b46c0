from __future__ import annotations

from dataclasses import replace

import pytest

from kqueue.log_tools.tier.verification import ORPHAN_AGE_MS, TierReport, delete_orphans, verify_tier
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_by_next_leader, copied_log, put, put_records
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.manifest_root import encode_root
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore

ID = "0123456789abcdef" * 2


@pytest.fixture
def store() -> TierStore:
    store = MemoryTierStore()
    put_records(store)
    copied_log(store)
    return store


def segments_of(store: TierStore) -> list[TieredSegment]:
    return list(Manifest.open(store, ORDERS).segments())


def body(store: TierStore, segment: TieredSegment) -> bytearray:
    return bytearray(store.get(segment.key(ORDERS), max_bytes=1 << 20).body)


def errors_of(report: TierReport) -> list[str]:
    return [str(finding) for finding in report.verification.errors]


@pytest.mark.parametrize("checksums", [False, True])
def test_sound_tier_has_no_findings(store: TierStore, checksums: bool) -> None:
    report = verify_tier(store, checksums=checksums)
    assert (report.verification.findings, report.orphans) == ([], [])
    assert report.verification.segments == len(segments_of(store))
    assert (report.verification.records > 0) is checksums


@pytest.mark.parametrize("lost", [0, 3])
def test_segments_of_several_leaders_are_sound(store: TierStore, lost: int) -> None:
    end = Manifest.open(store, ORDERS).end_offset
    other = MemoryTierStore()
    put_records(other)
    copied_by_next_leader(other, copied_log(other), kept=end - lost if lost else None)
    assert verify_tier(other, checksums=True).verification.findings == []


def test_missing_object_is_an_error(store: TierStore) -> None:
    key = segments_of(store)[1].key(ORDERS)
    store.delete([key])
    assert errors_of(verify_tier(store)) == [f"{key}: expected an object, found none"]
    assert any("does not exist" in text for text in errors_of(verify_tier(store, checksums=True)))


@pytest.mark.parametrize("change", [-1, 1])
def test_object_of_another_size_is_an_error(store: TierStore, change: int) -> None:
    segment = segments_of(store)[1]
    data = body(store, segment)
    put(store, segment.key(ORDERS), bytes(data[:change] if change < 0 else data + b"x"))
    (error,) = errors_of(verify_tier(store))
    assert f"expected {len(data)} bytes, found {len(data) + change}" in error


def test_changed_batch_is_found_by_its_checksum(store: TierStore) -> None:
    segment = segments_of(store)[1]
    data = body(store, segment)
    data[70] ^= 1
    put(store, segment.key(ORDERS), bytes(data))
    assert errors_of(verify_tier(store)) == []
    errors = errors_of(verify_tier(store, checksums=True))
    assert any("checksum" in error and segment.object_id in error for error in errors)
    assert any(f"{segment.base_offset:020d}.log" in error for error in errors)


def test_changed_index_is_found_by_its_checksum(store: TierStore) -> None:
    segment = segments_of(store)[1]
    data = body(store, segment)
    data[segment.size] ^= 1
    put(store, segment.key(ORDERS), bytes(data))
    assert any("of all indexes" in error for error in errors_of(verify_tier(store, checksums=True)))


def test_changed_entry_at_the_end_is_found(store: TierStore) -> None:
    segment = segments_of(store)[1]
    data = body(store, segment)
    data[-20] ^= 1
    put(store, segment.key(ORDERS), bytes(data))
    assert any("checksum of its entry" in error for error in errors_of(verify_tier(store, checksums=True)))


def test_objects_in_each_others_place_are_found(store: TierStore) -> None:
    one, other = segments_of(store)[1:3]
    first, second = body(store, one), body(store, other)
    put(store, one.key(ORDERS), bytes(second))
    put(store, other.key(ORDERS), bytes(first))
    assert len(errors_of(verify_tier(store, checksums=True))) >= 2


def test_gap_between_segments_is_an_error(store: TierStore) -> None:
    manifest = Manifest.open(store, ORDERS)
    kept = (*manifest.root.segments[:1], *manifest.root.segments[2:])
    put(store, ORDERS.manifest_key, encode_root(replace(manifest.root, segments=kept)))
    errors = errors_of(verify_tier(store))
    assert any("are missing" in error for error in errors)
    assert any("segments of" in error for error in errors)


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_manifest_that_cannot_be_read_is_an_error_and_its_segments_are_no_orphans(
    store: TierStore, damage: bytes
) -> None:
    put(store, ORDERS.manifest_key, damage)
    report = verify_tier(store, checksums=True)
    assert [finding.expected for finding in report.verification.errors] == ["a manifest that can be read"]
    assert report.orphans == []
    store.delete([ORDERS.manifest_key])
    report = verify_tier(store)
    assert [finding.found for finding in report.verification.errors] == ["no such object"]
    assert report.orphans == []


def test_orphan_is_a_note_and_is_deleted_once_it_is_old(store: TierStore) -> None:
    key = ORDERS.segment_key(5, ID)
    put(store, key, b"left over")
    report = verify_tier(store)
    assert report.verification.is_sound
    assert [entry.key for entry in report.orphans] == [key]
    written_ms = report.orphans[0].modified_ms
    assert delete_orphans(store, report, written_ms + ORPHAN_AGE_MS) == []
    assert delete_orphans(store, report, written_ms + ORPHAN_AGE_MS + 1) == report.orphans
    assert verify_tier(store).verification.findings == []


def test_announced_copies_pages_and_objects_of_others_are_no_orphans(store: TierStore) -> None:
    manifest = Manifest.open(store, ORDERS)
    last = segments_of(store)[-1]
    start, end = last.end_offset, last.end_offset + 100
    announced = last._replace(
        object_id=ID, base_offset=start, start_offset=start, end_offset=end, unstable_offset=end, epochs=((0, start),)
    )
    manifest.begin_copy(0, announced)
    put(store, announced.key(ORDERS), b"half")
    put(store, ORDERS.page_key(0, ID), b"{}")
    put(store, f"{ORDERS.prefix}/segments/deeper/x", b"")
    put(store, f"{ORDERS.prefix}/notes.txt", b"")
    report = verify_tier(store)
    assert report.orphans == []
    assert [finding.found for finding in report.verification.notes] == ["another one"] * 2


def test_topic_without_record_or_with_too_many_partitions_is_an_error(store: TierStore) -> None:
    copied_log(store, partition=TieredPartition("orders", ORDERS.topic_id, 3))
    (error,) = errors_of(verify_tier(store))
    assert "expected 1 partition, as topic.json says, found objects of partition 3" in error
    store.delete([TopicRecord("orders", ORDERS.topic_id, 1).key])
    assert any("has no record" in error for error in errors_of(verify_tier(store)))


def test_deleted_topic_with_objects_is_a_note(store: TierStore) -> None:
    put_records(store, TopicRecord("orders", ORDERS.topic_id, 1, deleted_ms=1))
    report = verify_tier(store)
    assert report.verification.is_sound
    assert len(report.verification.notes) == 1
    assert report.as_json()["orphans"] == []


def test_progress_ends_at_the_bytes_of_all_partitions(store: TierStore) -> None:
    copied_log(store, partition=TieredPartition("orders", ORDERS.topic_id, 1))
    steps: list[tuple[int, int]] = []
    verify_tier(store, checksums=True, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 0
