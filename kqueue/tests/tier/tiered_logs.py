"""A local log with a tier: copies its sealed segments as a leader does."""

from __future__ import annotations

import random
from itertools import pairwise

from kqueue.log.log import Log
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.copier import SegmentToCopy, copy_segment
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.manifest_root import decode_pages
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader
from kqueue.tier.stores.contract import TierStore

ORDERS = TieredPartition("orders", bytes(range(16)), 0)


def to_copy(log: Log, tiered_end: int) -> list[SegmentToCopy]:
    """Return the sealed segments that the tier lacks, oldest first."""
    sources = []
    bases = [segment.base for segment in log.segments]
    for segment, following in pairwise(log.segments):
        start = max(tiered_end, segment.base, log.start_offset)
        if following.base > start:
            sources.append(
                SegmentToCopy(
                    log.storage,
                    log.folder,
                    segment.base,
                    start,
                    following.base,
                    segment.size,
                    log.epochs.entries(),
                    log.segments.snapshots.offsets,
                    bases[:-1],
                )
            )
    return sources


def copy_all(
    store: TierStore,
    manifest: Manifest,
    log: Log,
    *,
    leader_epoch: int = 0,
    limit: int = 1000,
    tiered_end: int | None = None,
    seed: int = 0,
) -> list[TieredSegment]:
    """Copy the sealed segments that the tier lacks, `limit` at most; `tiered_end`: its end as the
    leader knows it.
    """
    rng = random.Random(seed + manifest.root.sequence)
    return [
        copy_segment(
            store,
            manifest,
            source,
            object_id=f"{rng.getrandbits(128):032x}",
            leader_epoch=leader_epoch,
            broker=1,
            now_ms=1000,
        )
        for source in to_copy(log, manifest.end_offset if tiered_end is None else tiered_end)[:limit]
    ]


def claim(manifest: Manifest, log: Log, leader_epoch: int) -> None:
    """Claim the manifest for the leader whose log this is."""
    manifest.claim(leader_epoch, Lineage(log.epochs.entries(), leader_epoch, log.end_offset))


def reader_of(store: TierStore, *, chunk_bytes: int = 256) -> TierReader:
    """Return a reader with small chunks in memory."""
    return TierReader(store, ChunkCache(store, chunk_bytes=chunk_bytes))


def read_all(reader: TierReader, manifest: Manifest, *, max_bytes: int = 300) -> bytes:
    """Return all batches of the tier, from its start to its end."""
    offset, data = manifest.start_offset, b""
    while offset < manifest.end_offset:
        read = reader.read(manifest, offset, max_bytes, end_offset=manifest.end_offset)
        assert read.next_offset > offset
        data, offset = data + read.records, read.next_offset
    return data


def log_bytes(log: Log, end_offset: int, start_offset: int | None = None) -> bytes:
    """Return the batches of a log from the one with `start_offset` (None: the first) on."""
    data, offset = b"", log.segments.base_offset if start_offset is None else start_offset
    while offset < end_offset:
        read = log.read(offset, 1 << 20, end_offset=end_offset)
        data, offset = data + read.read(), read.next_offset
    return data


def keys_named_by(store: TierStore, manifest: Manifest) -> set[str]:
    """Return the keys of all objects that the root and its pages name, and its own."""
    root = manifest.root
    keys = {manifest.partition.manifest_key, *root.deleting}
    keys |= {segment.key(manifest.partition) for segment in (*manifest.segments(), *root.copying)}
    pages = [(level, ref) for level, refs in enumerate(root.levels) for ref in refs]
    for level, ref in pages:
        if ref.end_offset > root.removed_below:
            key = ref.key(manifest.partition)
            keys.add(key)
            if level:
                data = store.get(key, max_bytes=1 << 20).body
                pages += [(level - 1, child) for child in decode_pages(data, ref, level)]
    return keys
