"""Makes a lost or damaged manifest again, from the entries at the end of the segment objects.

A manifest grows at its end only, and each later leader writes above or in place of what earlier
ones wrote. So the objects are taken in the order of leader epoch and time, and each one replaces
what is at or above its first offset. That leaves out copies that were given up and written again,
and records that an unclean election undid.

What no object says is lost: a log start within the first segment, as DeleteRecords leaves it, and a
cut at the end that no later copy followed. A leader cuts again what its own log contradicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from kqueue.log_tools.tier.segment_entries import read_entry
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.keys import SEGMENTS, TieredPartition
from kqueue.tier.formats.manifest_root import NO_EPOCH
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore

Gap = tuple[int, int]
"""The first missing offset, and the next one that is there."""


@dataclass(slots=True)
class RebuiltManifest:
    """The segments that a manifest should have, as far as objects say.

    segments: oldest first. unreadable: what is wrong with the objects that were left out.
    """

    segments: list[TieredSegment] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def leader_epoch(self) -> int:
        """The latest leader that wrote; NO_EPOCH: none."""
        return highest_epoch(self.segments)

    @property
    def gaps(self) -> list[Gap]:
        """The gaps between segments."""
        return gaps_between(self.segments)


def check_manifest(store: TierStore, partition: TieredPartition) -> str:
    """Return why a manifest has to be rebuilt; empty: it is whole. Raises: TierError."""
    try:
        manifest = Manifest.open(store, partition)
        for _ in manifest.segments():
            pass
    except (TierCorrupt, ObjectNotFound) as error:
        return str(error)
    return "" if manifest.exists else f"{partition} has no manifest"


def segments_of_objects(store: TierStore, partition: TieredPartition) -> RebuiltManifest:
    """Return what the objects of a partition say. Reads the end of each. Raises: TierError."""
    rebuilt = RebuiltManifest()
    entries = []
    for listed in store.list(f"{partition.prefix}/{SEGMENTS}"):
        try:
            entry = read_entry(store, listed.key, listed.size)
        except ObjectNotFound:
            continue  # deleted meanwhile
        except TierCorrupt as error:
            rebuilt.unreadable.append(str(error))
            continue
        if entry.key(partition) == listed.key:
            entries.append(entry)
        else:
            rebuilt.unreadable.append(f"{store.location}/{listed.key}: its entry is that of {entry.key(partition)}")
    rebuilt.segments = chain_of(entries)
    return rebuilt


def rebuild_manifest(store: TierStore, partition: TieredPartition, rebuilt: RebuiltManifest) -> Manifest:
    """Write the manifest. Raises: ObjectChanged: somebody else has; TierError."""
    manifest = Manifest(store, partition)
    manifest.rebuild(rebuilt.segments, rebuilt.leader_epoch)
    return manifest


def chain_of(entries: Iterable[TieredSegment]) -> list[TieredSegment]:
    """Return the segments that count, oldest first, cut where a later one begins."""
    chain: list[TieredSegment] = []
    for entry in sorted(entries, key=lambda one: (one.leader_epoch, one.copied_ms, one.start_offset, one.object_id)):
        while chain and chain[-1].start_offset >= entry.start_offset:
            chain.pop()
        if chain and chain[-1].end_offset > entry.start_offset:
            chain[-1] = chain[-1].cut(entry.start_offset)
        chain.append(entry)
    return chain


def gaps_between(segments: Iterable[TieredSegment]) -> list[Gap]:
    """Return the gaps between segments, which are in order."""
    return [
        (before.end_offset, after.start_offset)
        for before, after in pairwise(segments)
        if before.end_offset < after.start_offset
    ]


def highest_epoch(segments: Iterable[TieredSegment]) -> int:
    """Return the highest leader epoch in segments; NO_EPOCH: there is none."""
    epochs = [NO_EPOCH]
    for segment in segments:
        epochs.append(segment.leader_epoch)
        epochs += [epoch for epoch, _ in segment.epochs]
    return max(epochs)
