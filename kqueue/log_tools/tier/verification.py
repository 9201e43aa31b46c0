"""Verifies a tier: manifests against the objects in the store, and objects against themselves.

Listing the store tells which objects are missing, of the wrong size, or left over. With checksums
all bytes are read: of each segment its checksum, its batches, indexes, snapshot and leader epochs.

Brokers may write meanwhile. Objects are listed before the manifest is read: a copy is announced
there before its object exists, so an object that the manifest does not know was given up. Nothing
refers to it again, as ids of segments are random. Pages of manifests are named by their content,
and may be written again: they are never orphans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crc32c import crc32c

from kqueue.base.errors import StorageFailed
from kqueue.base.settings import MiB
from kqueue.base.text import counted
from kqueue.log_tools.progress import ProgressCallback
from kqueue.log_tools.tier.segment_entries import read_entry
from kqueue.log_tools.verify import verify_storage
from kqueue.log_tools.verify.report import ERROR, NOTE, Finding, VerificationReport
from kqueue.tier.catalog import TieredTopic, all_topics
from kqueue.tier.chunks import ChunkCache, RunLater
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.keys import MANIFEST, PAGES, SEGMENTS, TieredPartition
from kqueue.tier.formats.segment_object import TRAILER, encode_footer, index_range
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import ObjectEntry, TierStore
from kqueue.tier.tier_storage import TierStorage

ORPHAN_AGE_MS = 3_600_000
READ_BYTES = 4 * MiB
DELETED_AT_ONCE = 1000


@dataclass(slots=True)
class TierReport:
    """The result of a verification.

    verification: findings, whose files are keys of objects. orphans: objects of segments that no
    manifest knows.
    """

    verification: VerificationReport
    orphans: list[ObjectEntry] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            **self.verification.as_json(),
            "orphans": [{"key": one.key, "size": one.size, "modified_ms": one.modified_ms} for one in self.orphans],
        }


def verify_tier(
    store: TierStore,
    topics: Sequence[str] = (),
    *,
    checksums: bool = False,
    run_later: RunLater | None = None,
    progress: ProgressCallback | None = None,
) -> TierReport:
    """Verify the topics of a tier. Nothing is written.

    Args:
        topics: only these; empty: all.
        checksums: read all batches and indexes.
        run_later: fetches the next chunks in other threads.
        progress: receives the bytes that are done, and their total; with checksums only.
    Raises: TierError: the store can't be read.
    """
    report = TierReport(VerificationReport(store.location))
    partitions: list[_Checked] = []
    for topic in all_topics(store, topics):
        _check_topic(topic, report.verification)
        for number in topic.partitions:
            checked = _PartitionObjects(store, topic.partition(number), report).check()
            if checked is not None:
                partitions.append(checked)
    if checksums:
        total = sum(one.manifest.root.size for one in partitions)
        done = 0
        for one in partitions:
            step = _offset_progress(progress, done, total)
            _Contents(store, one, report.verification, run_later).check(step)
            done += one.manifest.root.size
    report.verification.close()
    return report


def delete_orphans(store: TierStore, report: TierReport, now_ms: int) -> list[ObjectEntry]:
    """Delete the orphans that are older than an hour; return them. Raises: TierError."""
    old = [entry for entry in report.orphans if now_ms - entry.modified_ms > ORPHAN_AGE_MS]
    for first in range(0, len(old), DELETED_AT_ONCE):
        store.delete([entry.key for entry in old[first : first + DELETED_AT_ONCE]])
    return old


def _offset_progress(progress: ProgressCallback | None, before: int, total: int) -> ProgressCallback | None:
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def _check_topic(topic: TieredTopic, report: VerificationReport) -> None:
    record = topic.record
    key = topic.partition(0).prefix.rpartition("/")[0]
    if record is None:
        report.add(Finding(key, None, "the record of the topic, topic.json", topic.problem))
        return
    if record.is_deleted:
        report.add(Finding(key, None, "topics that exist", "one that is deleted, whose objects are still here", NOTE))
    beyond = [number for number in topic.partitions if number >= record.partitions]
    if beyond:
        found = f"objects of partition {beyond[0]}"
        report.add(Finding(key, None, f"{counted(record.partitions, 'partition')}, as topic.json says", found))


class _Checked(NamedTuple):
    """A partition whose manifest could be read. sizes: of its objects, by key."""

    manifest: Manifest
    sizes: dict[str, int]


class _PartitionObjects:
    """Compares the manifest of a partition with the list of its objects."""

    def __init__(self, store: TierStore, partition: TieredPartition, report: TierReport) -> None:
        self._store = store
        self._partition = partition
        self._report = report

    def check(self) -> _Checked | None:
        """Return the manifest and the objects; None: it can't be read."""
        partition = self._partition
        verification = self._report.verification
        verification.partitions += 1
        # Before the manifest, see the module.
        objects = {entry.key: entry for entry in self._store.list(partition.prefix)}
        try:
            manifest = Manifest.open(self._store, partition)
            segments = list(manifest.segments())
        except (TierCorrupt, ObjectNotFound) as error:
            self._find(partition.manifest_key, "a manifest that can be read", str(error))
            return None
        if not manifest.exists:
            self._find(partition.manifest_key, "a manifest", "no such object")
            return None
        verification.segments += len(segments)
        self._check_sums(manifest, segments)
        self._check_offsets(segments)
        for segment in segments:
            self._check_object(segment, objects)
        self._find_left_over(manifest, segments, objects)
        return _Checked(manifest, {key: entry.size for key, entry in objects.items()})

    def _find(self, key: str, expected: str, found: str, severity: str = ERROR) -> None:
        self._report.verification.add(Finding(key, None, expected, found, severity))

    def _check_sums(self, manifest: Manifest, segments: Sequence[TieredSegment]) -> None:
        root, key = manifest.root, self._partition.manifest_key
        found = len(segments), sum(segment.size for segment in segments)
        if found != (root.count, root.size):
            self._find(key, f"{root.count} segments of {root.size} bytes", f"{found[0]} segments of {found[1]} bytes")

    def _check_offsets(self, segments: Sequence[TieredSegment]) -> None:
        end = None
        for segment in segments:
            key = segment.key(self._partition)
            if end is not None and segment.start_offset > end:
                self._find(key, f"offset {end}", f"{segment.start_offset}: {segment.start_offset - end} are missing")
            if end is not None and segment.start_offset < end:
                self._find(key, f"offset {end}", f"{segment.start_offset}, which the segment before has, too")
            end = segment.end_offset

    def _check_object(self, segment: TieredSegment, objects: dict[str, ObjectEntry]) -> None:
        key = segment.key(self._partition)
        least = segment.size + sum(segment.indexes) + TRAILER.size
        entry = objects.get(key)
        if entry is None:
            # A list may lag behind, and the segment may have been deleted since.
            try:
                self._store.get_range(key, least - TRAILER.size, TRAILER.size)
            except (ObjectNotFound, TierCorrupt) as error:
                if self._is_referred_to(segment):
                    self._find(key, "an object", "none" if isinstance(error, ObjectNotFound) else str(error))
            return
        exact = least - TRAILER.size + len(encode_footer(segment))
        if segment.is_cut and entry.size < least:
            self._find(key, f"{least} bytes or more", str(entry.size))
        elif not segment.is_cut and entry.size != exact:
            self._find(key, f"{exact} bytes", str(entry.size))

    def _is_referred_to(self, segment: TieredSegment) -> bool:
        manifest = Manifest.open(self._store, self._partition)
        return any(one.object_id == segment.object_id for one in manifest.segments())

    def _find_left_over(
        self, manifest: Manifest, segments: Sequence[TieredSegment], objects: dict[str, ObjectEntry]
    ) -> None:
        partition, root = self._partition, manifest.root
        known = {segment.key(partition) for segment in (*segments, *root.copying)}
        known |= {partition.manifest_key, *root.deleting}
        for key, entry in objects.items():
            kind, _, name = key.removeprefix(f"{partition.prefix}/").partition("/")
            if key in known or (kind == PAGES and "/" not in name) or kind == MANIFEST:
                continue
            if kind == SEGMENTS and "/" not in name:
                self._report.orphans.append(entry)
                self._find(key, "objects that the manifest knows", f"an orphan of {entry.size} bytes", NOTE)
            else:
                self._find(key, "objects of kqueue only", "another one", NOTE)


class _Contents:
    """Reads all objects of a partition, and checks their bytes."""

    def __init__(
        self, store: TierStore, checked: _Checked, report: VerificationReport, run_later: RunLater | None
    ) -> None:
        self._store = store
        self._manifest, self._sizes = checked
        self._partition = checked.manifest.partition
        self._report = report
        self._chunks = ChunkCache(store, run_later=run_later)
        self._sums: dict[str, tuple[int, int]] = {}  # position up to which a checksum goes, and it

    def check(self, progress: ProgressCallback | None) -> None:
        """Check everything; the findings go to the report."""
        storage = TierStorage(self._store, self._chunks, [self._partition], observer=self._add)
        try:
            found = verify_storage(storage, str(self._partition), progress=progress)
        except StorageFailed as error:
            self._report.add(Finding(str(self._partition), None, "a partition that can be read", str(error)))
            return
        self._report.batches += found.batches
        self._report.records += found.records
        self._report.bytes += found.bytes
        prefix = self._partition.prefix.removesuffix(f"/{self._partition.partition}")
        for finding in found.findings:
            self._report.add(finding._replace(file=f"{prefix}: {finding.file}"))
        for segment in self._manifest.segments():
            self._check_segment(segment)

    def _add(self, key: str, position: int, data: bytes) -> None:
        """Continue the checksum of an object with what was read in order."""
        done, crc = self._sums.get(key, (0, 0))
        if position <= done < position + len(data):
            self._sums[key] = position + len(data), crc32c(memoryview(data)[done - position :], crc)

    def _check_segment(self, segment: TieredSegment) -> None:
        key = segment.key(self._partition)
        try:
            crc = self._checksum(segment, key)
            if crc != segment.crc:
                self._find(key, f"checksum {segment.crc:08x} of all batches, as the manifest says", f"{crc:08x}")
            self._check_indexes(segment, key)
            self._check_entry(segment, key)
        except (ObjectNotFound, TierCorrupt) as error:
            self._find(key, "an object that can be read", str(error))

    def _checksum(self, segment: TieredSegment, key: str) -> int:
        position, crc = self._sums.pop(key, (0, 0))
        while position < segment.size:
            size = min(READ_BYTES, segment.size - position)
            crc = crc32c(self._chunks.read(key, segment.size, position, size), crc)
            position += size
        return crc

    def _check_indexes(self, segment: TieredSegment, key: str) -> None:
        position, rest = index_range(segment)
        crc = 0
        while rest:
            size = min(READ_BYTES, rest)
            crc = crc32c(self._store.get_range(key, position, size), crc)
            position, rest = position + size, rest - size
        if crc != segment.indexes_crc:
            expected = f"checksum {segment.indexes_crc:08x} of all indexes, as the manifest says"
            self._find(key, expected, f"{crc:08x}")

    def _check_entry(self, segment: TieredSegment, key: str) -> None:
        """Compare the entry in the object, which recovery reads, with that of the manifest."""
        size = self._sizes.get(key)
        if size is None:
            return  # missing objects are reported already
        entry = read_entry(self._store, key, size)
        if _uncut(entry) != _uncut(segment) or (not segment.is_cut and entry != segment):
            self._find(key, "the entry of the manifest at its end", "another one")

    def _find(self, key: str, expected: str, found: str) -> None:
        self._report.add(Finding(key, None, expected, found))


def _uncut(segment: TieredSegment) -> TieredSegment:
    """Return the entry without the fields that a cut changes."""
    return segment._replace(end_offset=0, epochs=(), unstable_offset=0, is_cut=False)
