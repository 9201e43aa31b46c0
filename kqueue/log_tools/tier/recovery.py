"""Plans the recovery of topics from a tier, and makes their manifests whole.

A plan says for each partition how far the tier goes, what is missing in between, and from which
leader epoch on a leader may write. Records that were not copied before the brokers were lost are
lost; no tool can say how many there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kqueue.base.names import INTERNAL_TOPICS, uuid_text
from kqueue.base.text import counted
from kqueue.log_tools.tier.manifest_rebuild import (
    Gap,
    RebuiltManifest,
    check_manifest,
    gaps_between,
    highest_epoch,
    rebuild_manifest,
    segments_of_objects,
)
from kqueue.tier.catalog import TieredTopic, all_topics
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.keys import SEGMENTS, TieredPartition
from kqueue.tier.formats.manifest_root import NO_EPOCH
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader
from kqueue.tier.stores.contract import TierStore

REMOTE_ENABLE = "remote.storage.enable"
GUESSED_CONFIGS = {REMOTE_ENABLE: "true", "retention.ms": "-1", "retention.bytes": "-1"}
"""Of a topic whose record is lost: nothing of it is deleted."""
CheckSetting = Callable[[str, str], str | None]
"""Returns why a broker would not accept a topic's setting; None: it does."""
CountCallback = Callable[[int, int], None]
"""Called with the number of things that are done, and of all."""


@dataclass(slots=True)
class PartitionPlan:
    """A partition to recover.

    start_offset, end_offset: of the records in the tier; equal: there are none.
    leader_epoch: the first one that may write.
    rebuilt: segments for a new manifest; None: the manifest is whole.
    problems: sentences.
    """

    partition: TieredPartition
    start_offset: int = 0
    end_offset: int = 0
    leader_epoch: int = 0
    rebuilt: RebuiltManifest | None = None
    gaps: list[Gap] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "partition": self.partition.partition,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "leader_epoch": self.leader_epoch,
            "rebuilt": self.rebuilt is not None,
            "gaps": [list(gap) for gap in self.gaps],
            "problems": self.problems,
        }


@dataclass(slots=True)
class TopicPlan:
    """A topic to recover.

    configs: its own settings. replication_factor: None: unknown.
    skipped: why it is not recovered; empty: it is.
    problems: sentences.
    """

    topic: TieredTopic
    configs: Mapping[str, str]
    replication_factor: int | None
    partitions: list[PartitionPlan]
    skipped: str = ""
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "topic": self.topic.topic,
            "topic_id": uuid_text(self.topic.topic_id),
            "configs": dict(self.configs),
            "replication_factor": self.replication_factor,
            "skipped": self.skipped or None,
            "problems": self.problems,
            "partitions": [partition.as_json() for partition in self.partitions],
        }


def plan_recovery(
    store: TierStore,
    topics: Sequence[str] = (),
    *,
    check_setting: CheckSetting = lambda name, value: None,
    progress: CountCallback = lambda done, total: None,
) -> list[TopicPlan]:
    """Return what can be recovered. Nothing is written.

    Args:
        topics: only these; empty: all.
        check_setting: settings that it refuses are left out: a broker could not start with them.
        progress: receives the number of partitions that were looked at, and of all.
    Raises: TierError: the store can't be read.
    """
    plans: list[TopicPlan] = []
    names: set[str] = set()
    for topic in all_topics(store, topics):
        plan = _plan_topic(topic, check_setting)
        if topic.topic in names:
            plan.skipped = "a newer topic of this name is recovered"
        if not plan.skipped:
            names.add(topic.topic)
        plans.append(plan)
    partitions = [(plan, one) for plan in plans if not plan.skipped for one in _partitions(plan.topic)]
    for done, (plan, one) in enumerate(partitions, start=1):
        plan.partitions.append(_plan_partition(store, one))
        progress(done, len(partitions))
    return plans


def rebuild_manifests(store: TierStore, plans: Sequence[TopicPlan]) -> int:
    """Write the manifests that are lost or damaged; return their number.

    Raises: ObjectChanged: a broker writes; TierError.
    """
    count = 0
    for partition in _recovered(plans):
        if partition.rebuilt is not None:
            rebuild_manifest(store, partition.partition, partition.rebuilt)
            count += 1
    return count


def producer_ids(
    store: TierStore,
    partitions: Sequence[PartitionPlan],
    *,
    progress: CountCallback = lambda done, total: None,
) -> tuple[int, int] | None:
    """Return the lowest and highest id of the producers at the ends of partitions; None: none.

    Args: progress: as of `plan_recovery`.
    Raises: TierError, CorruptData: a manifest or segment can't be read.
    """
    reader = TierReader(store, ChunkCache(store))
    ids: set[int] = set()
    for done, one in enumerate(partitions, start=1):
        if one.end_offset > one.start_offset:
            manifest = Manifest.open(store, one.partition)
            ids.update(id for id, _ in reader.producers_at(manifest, manifest.end_offset).items())
        progress(done, len(partitions))
    return (min(ids), max(ids)) if ids else None


def _recovered(plans: Sequence[TopicPlan]) -> Iterator[PartitionPlan]:
    for plan in plans:
        if not plan.skipped:
            yield from plan.partitions


def _partitions(topic: TieredTopic) -> list[TieredPartition]:
    known = topic.record.partitions if topic.record is not None else 0
    return [topic.partition(number) for number in range(max([known, *(number + 1 for number in topic.partitions)]))]


def _plan_topic(topic: TieredTopic, check_setting: CheckSetting) -> TopicPlan:
    record = topic.record
    if record is None:
        plan = TopicPlan(topic, GUESSED_CONFIGS, None, [])
        plan.problems.append(f"{topic.problem}: its settings are unknown, so all records are kept")
        if not topic.partitions:
            plan.skipped = "it has no partitions"
    else:
        plan = TopicPlan(topic, {}, record.replication_factor, [])
        configs = {}
        for name, value in record.configs.items():
            refusal = check_setting(name, value)
            if refusal is None:
                configs[name] = value
            else:
                plan.problems.append(f"a setting is left out: {refusal}")
        plan.configs = configs
        beyond = [number for number in topic.partitions if number >= record.partitions]
        if beyond:
            plan.problems.append(
                f"its record says {counted(record.partitions, 'partition')}, and there are objects of {beyond[-1]}"
            )
        if record.is_deleted:
            plan.skipped = "it was deleted"
        elif record.configs.get(REMOTE_ENABLE, "").strip().lower() != "true":
            plan.skipped = f"its setting {REMOTE_ENABLE} is not true any more"
    if topic.topic in INTERNAL_TOPICS:
        plan.skipped = "it is an internal topic"
    return plan


def _plan_partition(store: TierStore, partition: TieredPartition) -> PartitionPlan:
    plan = PartitionPlan(partition)
    problem = check_manifest(store, partition)
    if problem:
        rebuilt = segments_of_objects(store, partition)
        plan.problems += rebuilt.unreadable
        if rebuilt.segments or problem != f"{partition} has no manifest":
            plan.rebuilt = rebuilt
            plan.problems.append(f"{problem}: it is made again from {counted(len(rebuilt.segments), 'segment')}")
        segments, log_start, epoch = rebuilt.segments, 0, rebuilt.leader_epoch
    else:
        manifest = Manifest.open(store, partition)
        segments = list(manifest.segments(manifest.start_offset))
        log_start, epoch = manifest.start_offset, manifest.root.leader_epoch
        plan.end_offset = plan.start_offset = manifest.end_offset
    if segments:
        plan.start_offset = max(log_start, segments[0].start_offset)
        plan.end_offset = segments[-1].end_offset
    plan.leader_epoch = max(epoch, highest_epoch(segments), NO_EPOCH) + 1
    plan.gaps = gaps_between(segments)
    plan.problems += [f"{end - start} offsets from {start} on are missing" for start, end in plan.gaps]
    plan.problems += _lost_objects(store, partition, segments)
    return plan


def _lost_objects(store: TierStore, partition: TieredPartition, segments: Sequence[TieredSegment]) -> Iterator[str]:
    """Yield a sentence for each segment whose object is gone or was cut off."""
    sizes = {entry.key: entry.size for entry in store.list(f"{partition.prefix}/{SEGMENTS}")}
    for segment in segments:
        key, end = segment.key(partition), segment.size + sum(segment.indexes)
        if sizes.get(key, 0) > end:
            continue
        try:  # a list may lag behind
            store.get_range(key, end, 1)
        except TierCorrupt as error:
            yield f"offsets {segment.start_offset} to {segment.end_offset - 1} can't be read: {error}"
        except ObjectNotFound as error:
            yield f"offsets {segment.start_offset} to {segment.end_offset - 1} are lost: {error}"
