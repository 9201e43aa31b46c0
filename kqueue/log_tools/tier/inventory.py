"""What a tier has: topics, partitions, segments, offsets, bytes and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from kqueue.base.names import uuid_text
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.tier.catalog import TieredTopic, all_topics
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore

THREADS = 8


class PartitionInventory(NamedTuple):
    """A partition in a tier.

    start_offset, end_offset: of the records that can be read; end exclusive.
    segments, size: their number, and bytes of batches.
    newest_ms: greatest time of a record; copied_ms: when the newest copy began. None: none.
    leader_epoch: of the leader that wrote last; -1: none.
    problem: why the manifest can't be read; empty: it was. Then the other fields are those of an
        empty partition.
    """

    partition: TieredPartition
    start_offset: int = 0
    end_offset: int = 0
    segments: int = 0
    size: int = 0
    newest_ms: int | None = None
    copied_ms: int | None = None
    leader_epoch: int = -1
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the partition as JSON values."""
        values = {name: value for name, value in self._asdict().items() if name not in ("partition", "problem")}
        return {"partition": self.partition.partition, **values, "problem": self.problem or None}


class TopicInventory(NamedTuple):
    """A topic in a tier. `partitions`: those with objects, ascending."""

    topic: TieredTopic
    partitions: list[PartitionInventory]

    def as_json(self) -> dict[str, Any]:
        """Return the topic as JSON values."""
        record = self.topic.record
        return {
            "topic": self.topic.topic,
            "topic_id": uuid_text(self.topic.topic_id),
            "deleted": self.topic.is_deleted,
            "partition_count": None if record is None else record.partitions,
            "replication_factor": None if record is None else record.replication_factor,
            "configs": None if record is None else dict(record.configs),
            "created_ms": None if record is None else record.created_ms,
            "problem": self.topic.problem or None,
            "partitions": [one.as_json() for one in self.partitions],
        }


def tier_inventory(store: TierStore, topics: Sequence[str] = ()) -> Iterator[TopicInventory]:
    """Yield the topics of a tier by name, those of one name with the one that counts first.

    Args: topics: only these; empty: all.
    Raises: TierError: the store can't be read. What is damaged is a problem of its topic.
    """
    with ThreadPoolExecutor(THREADS, thread_name_prefix="kqueue-tier") as pool:
        for topic in all_topics(store, topics):
            partitions = [topic.partition(number) for number in topic.partitions]
            yield TopicInventory(topic, list(pool.map(partial(partition_inventory, store), partitions)))


def partition_inventory(store: TierStore, partition: TieredPartition) -> PartitionInventory:
    """Return what a manifest says, without a look at the objects. Raises: TierError."""
    try:
        manifest = Manifest.open(store, partition)
        latest = manifest.latest()
    except (TierCorrupt, ObjectNotFound) as error:
        return PartitionInventory(partition, problem=str(error))
    if not manifest.exists:
        return PartitionInventory(partition, problem=f"{partition} has no manifest")
    root = manifest.root
    times = [segment.max_timestamp for segment in root.segments]
    times += [page.max_timestamp for level in root.levels for page in level]
    newest_ms = max(times, default=NO_TIMESTAMP)
    return PartitionInventory(
        partition,
        manifest.start_offset,
        manifest.end_offset,
        root.count,
        root.size,
        None if newest_ms == NO_TIMESTAMP else newest_ms,
        None if latest is None else latest.copied_ms,
        root.leader_epoch,
    )


def partition_segments(store: TierStore, partition: TieredPartition) -> Iterator[TieredSegment]:
    """Yield the segments of a partition, oldest first. Raises: TierError."""
    manifest = Manifest.open(store, partition)
    yield from manifest.segments(manifest.start_offset)
