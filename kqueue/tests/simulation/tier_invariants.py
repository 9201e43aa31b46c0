"""The invariants of a tier, checked at each change of the store and after each turn of a broker.

In the store:
- A manifest's segments follow each other without gap or overlap. Each has a whole object, with the
  bytes and checksums of its entry, whose batches are committed.
- Its leader epoch never falls, nor its log start, but for an unclean election. A committed segment
  leaves it only below the log start, which rises only where retention or DeleteRecords let it.
- No object is deleted, or replaced, while a manifest names it.

At a broker:
- Its log start never falls, and is not above the manifest's but by DeleteRecords.
- A leader without any record goes on behind those that the tier has.
- What it has deleted on its disk above the log start is in the tier, with its own leader epochs.
- Once it has claimed a manifest, all segments there have the epochs of its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.names import parse_uuid
from kqueue.broker.replicas.partition import Partition
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.records.batch import iter_batches
from kqueue.tests.simulation.cluster_invariants import Batch, ClusterInvariants, History, Key
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_broker import BrokerProcess
from kqueue.tests.simulation.simulated_tier import StoreObserver, TierObjects
from kqueue.tier.formats.keys import MANIFEST, TieredPartition
from kqueue.tier.formats.manifest_root import ManifestRoot, PageRef, decode_pages, decode_root, decode_segments
from kqueue.tier.formats.segment_object import index_range
from kqueue.tier.formats.segments import TieredSegment


class Tree(NamedTuple):
    """What a root names. keys: of live segments and pages."""

    root: ManifestRoot
    segments: list[TieredSegment]
    keys: frozenset[str]


class _Seen:
    """What was seen of a replica in one process."""

    __slots__ = ("claim", "is_known", "local_start", "start")

    def __init__(self) -> None:
        self.start = self.local_start = 0
        self.claim: tuple[int, int] | None = None
        self.is_known = False


class TierInvariants(StoreObserver):
    """Checks the store and brokers.

    Args: has_retention: of the whole logs; without it only DeleteRecords raises log starts.
    Attributes:
        trees: by partition, as its manifest is now.
        deleted_to: by partition, the highest offset that DeleteRecords was asked for.
    """

    def __init__(self, objects: TierObjects, invariants: ClusterInvariants, *, has_retention: bool) -> None:
        self.trees: dict[Key, Tree] = {}
        self.deleted_to: dict[Key, int] = {}
        self._objects = objects
        self._invariants = invariants
        self._has_retention = has_retention
        self._seen: dict[BrokerProcess, dict[Key, _Seen]] = {}

    def owner(self, key: str) -> tuple[Key, TieredPartition] | None:
        """Return the partition of an object; None: it is of none."""
        parts = key.split("/")
        if len(parts) < 5:
            return None
        topic_id, index = parse_uuid(parts[2]), int(parts[3])
        return (topic_id, index), TieredPartition(parts[1], topic_id, index)

    # --- the store

    def will_put(self, key: str, body: bytes) -> None:
        owner = self.owner(key)
        if owner is None:
            return
        partition, tiered = owner
        history, tree = self._invariants.histories[partition], self.trees.get(partition)
        if not key.endswith(f"/{MANIFEST}"):
            if tree is not None and key in tree.keys and self._objects.by_key[key].body != body:
                raise InvariantViolated(f"{history.name}: the object {key} is replaced, and the manifest has it")
            return
        new = self._tree(decode_root(body, tiered))
        self._check_tree(partition, history, new)
        before = tree or Tree(ManifestRoot(tiered), [], frozenset())
        self._check_root(partition, history, before.root, new.root)
        self._check_segments(history, before, new)
        self.trees[partition] = new

    def will_delete(self, key: str) -> None:
        owner = self.owner(key)
        if owner is None:
            return
        partition = owner[0]
        history, tree = self._invariants.histories[partition], self.trees.get(partition)
        if tree is not None and (key in tree.keys or key.endswith(f"/{MANIFEST}")) and not history.is_deleted:
            raise InvariantViolated(f"{history.name}: {key} is deleted, and the manifest has it")

    def _tree(self, root: ManifestRoot) -> Tree:
        segments: list[TieredSegment] = []
        keys: set[str] = set()
        for level in reversed(range(len(root.levels))):
            for page in root.levels[level]:
                self._open_page(root, page, level, segments, keys)
        segments += [segment for segment in root.segments if segment.end_offset > root.removed_below]
        return Tree(root, segments, frozenset({*keys, *(segment.key(root.partition) for segment in segments)}))

    def _open_page(
        self, root: ManifestRoot, page: PageRef, level: int, segments: list[TieredSegment], keys: set[str]
    ) -> None:
        if page.end_offset <= root.removed_below:
            return
        key = page.key(root.partition)
        stored = self._objects.by_key.get(key)
        if stored is None:
            raise InvariantViolated(f"{root.partition}: the page {key} of the manifest is missing")
        keys.add(key)
        if level:
            for child in decode_pages(stored.body, page, level):
                self._open_page(root, child, level - 1, segments, keys)
        else:
            items = decode_segments(stored.body, page)
            segments += [segment for segment in items if segment.end_offset > root.removed_below]

    def _check_tree(self, key: Key, history: History, tree: Tree) -> None:
        root, end = tree.root, None
        start = max(root.log_start_offset, self.deleted_to.get(key, 0))  # copies go on at the log start
        for segment in tree.segments:
            if end is not None and segment.start_offset != end and not end < segment.start_offset <= start:
                raise InvariantViolated(f"{history.name}: in the tier {segment.start_offset} comes after {end}")
            end = segment.end_offset
        size, count = sum(segment.size for segment in tree.segments), len(tree.segments)
        if (root.size, root.count) != (size, count):
            raise InvariantViolated(
                f"{history.name}: the manifest counts {root.count} segments, {root.size} bytes; found {count}, {size}"
            )

    def _check_root(self, key: Key, history: History, old: ManifestRoot, new: ManifestRoot) -> None:
        if new.sequence <= old.sequence or new.leader_epoch < old.leader_epoch:
            raise InvariantViolated(
                f"{history.name}: a manifest of epoch {old.leader_epoch} (change {old.sequence}) is replaced by one of "
                f"epoch {new.leader_epoch} (change {new.sequence})"
            )
        falls = new.log_start_offset < old.log_start_offset or new.removed_below < old.removed_below
        if falls and not (history.is_over and (new.removed_below == old.removed_below or not new.count)):
            raise InvariantViolated(f"{history.name}: the log start in the tier falls: {old} -> {new}")
        is_asked_for = self._has_retention or new.log_start_offset <= self.deleted_to.get(key, 0)
        if new.log_start_offset > old.log_start_offset and not is_asked_for:
            raise InvariantViolated(
                f"{history.name}: the log start in the tier rises to {new.log_start_offset}, which nobody asked for"
            )
        if not history.is_over and new.log_start_offset > history.end:
            raise InvariantViolated(f"{history.name}: the log starts at {new.log_start_offset}, beyond {history.end}")

    def _check_segments(self, history: History, old: Tree, new: Tree) -> None:
        known = {segment.object_id: segment for segment in old.segments}
        for segment in new.segments:
            before = known.pop(segment.object_id, None)
            if before is None:
                self._check_object(history, new.root.partition, segment)
            elif before != segment and not history.is_over:
                raise InvariantViolated(f"{history.name}: a committed segment is cut: {before} -> {segment}")
        for segment in known.values():
            if segment.end_offset > new.root.log_start_offset and not history.is_over:
                raise InvariantViolated(f"{history.name}: a committed segment is removed: {segment}")

    def _check_object(self, history: History, partition: TieredPartition, segment: TieredSegment) -> None:
        stored = self._objects.by_key.get(segment.key(partition))
        if stored is None:
            raise InvariantViolated(f"{history.name}: the manifest has a segment without an object: {segment}")
        start, size = index_range(segment)
        records, indexes = stored.body[: segment.size], stored.body[start : start + size]
        if (crc32c(records), crc32c(indexes)) != (segment.crc, segment.indexes_crc):
            raise InvariantViolated(f"{history.name}: the object of {segment} has other checksums")
        batches = self.batches(partition, segment)
        offset = batches[0].base_offset
        for batch in batches:
            if batch.base_offset != offset:
                raise InvariantViolated(f"{history.name}: {batch} comes at {offset} in {segment}")
            offset = batch.last_offset + 1
            if history.is_over:
                continue
            committed = history.committed.get(batch.base_offset)
            if committed != batch and batch.last_offset >= segment.start_offset:
                raise InvariantViolated(f"{history.name}: {batch} is copied, committed is {committed}")
        if batches[0].base_offset > segment.start_offset or offset != segment.end_offset:
            raise InvariantViolated(f"{history.name}: an object with {batches[0].base_offset} to {offset} is {segment}")
        if not history.is_over and segment.end_offset > history.end:
            raise InvariantViolated(f"{history.name}: {segment} is copied, and {history.end} are committed")

    def batches(self, partition: TieredPartition, segment: TieredSegment) -> list[Batch]:
        """Return the batches of a segment's object, those that were cut off too."""
        body = self._objects.by_key[segment.key(partition)].body
        return list(_batches(body[: segment.size]))

    def tiered(self, key: Key) -> list[Batch]:
        """Return the batches that the tier has of a partition now, each once."""
        tree = self.trees.get(key)
        if tree is None:
            return []
        return [
            batch
            for segment in tree.segments
            for batch in self.batches(tree.root.partition, segment)
            if segment.start_offset <= batch.last_offset and batch.base_offset < segment.end_offset
        ]

    def orphans(self, key: Key) -> list[str]:
        """Return the objects that the manifest of a partition does not name, though they should be
        gone: those that arrived after their deletion, and pages, may stay.
        """
        tree, orphans = self.trees.get(key), []
        for name, stored in self._objects.by_key.items():
            owner = self.owner(name)
            if owner is None or owner[0] != key or name.endswith(f"/{MANIFEST}") or "/pages/" in name:
                continue
            if tree is not None and (name in tree.keys or name in tree.root.deleting):
                continue
            if tree is not None and any(name == segment.key(owner[1]) for segment in tree.root.copying):
                continue
            if self._objects.deleted_ms.get(name, stored.put_ms + 1) > stored.put_ms:
                orphans.append(name)
        return orphans

    # --- brokers

    def forget(self, process: BrokerProcess) -> None:
        """A process has ended."""
        self._seen.pop(process, None)

    def check(self, process: BrokerProcess) -> None:
        """Check the tiered partitions of a process that has done something."""
        seen = self._seen.setdefault(process, {})
        for topic in process.broker.topics:
            if not topic.log_config.tiered:
                continue
            for partition in topic.partitions:
                key = (topic.id, partition.index)
                history = self._invariants.histories.get(key)
                if history is None or history.is_deleted or not partition.has_replica or not partition.is_open:
                    seen.pop(key, None)
                    continue
                health = partition.log.health
                if health.state is LogState.OFFLINE or health.failure is not None or partition.log.lacks_start:
                    continue
                self._check_replica(process, partition, key, history, seen.setdefault(key, _Seen()))

    def _check_replica(
        self, process: BrokerProcess, partition: Partition, key: Key, history: History, seen: _Seen
    ) -> None:
        log, tree = partition.log, self.trees.get(key)
        who = f"{history.name}: broker {process.number}"
        start = log.start_offset
        if start != seen.start:
            is_member = process.number in history.registration.isr  # others may begin again further back
            if start < seen.start and is_member and not history.is_over:
                raise InvariantViolated(f"{who}: the log start falls from {seen.start} to {start}")
            known = max(0 if tree is None else tree.root.log_start_offset, self.deleted_to.get(key, 0))
            if start > known and not history.is_over:
                raise InvariantViolated(f"{who}: the log starts at {start}, in the manifest at {known}")
            seen.start = start
        is_current = partition.leader_epoch == history.registration.leader_epoch
        needed = max(seen.local_start, start, 0 if tree is None else tree.root.log_start_offset)
        # Where records were lost, the tier may have been cut since an earlier process deleted here.
        is_checked = not history.is_over or (is_current and seen.is_known)
        if log.local_start_offset > needed and is_checked:
            self._check_deleted(who, key, log, needed)
        seen.is_known = True
        seen.local_start = log.local_start_offset
        if tree is not None and partition.is_leader and is_current:
            self._check_goes_on(who, partition, tree)
            self._check_claim(who, process, partition, key, seen, tree)

    def _check_deleted(self, who: str, key: Key, log: Log, start: int) -> None:
        """Check that the tier has what the disk lacks from `start` on."""
        offset, end = start, log.local_start_offset
        for batch in self.tiered(key):
            if batch.last_offset < offset:
                continue
            if batch.base_offset > offset or offset >= end:
                break
            if _contradicts(log, offset, batch):
                raise InvariantViolated(
                    f"{who} has deleted offset {offset} of epoch {log.epochs.epoch_at(offset)}; the tier has {batch}"
                )
            offset = batch.last_offset + 1
        if offset < end:
            raise InvariantViolated(f"{who} begins at {end}, and the tier lacks {offset}")

    def _check_goes_on(self, who: str, partition: Partition, tree: Tree) -> None:
        """Check that a leader without a record of former leaders goes on behind the tier."""
        epochs, end = partition.log.epochs.entries(), tree.segments[-1].end_offset if tree.segments else 0
        if epochs and epochs[0][0] == partition.leader_epoch > tree.root.leader_epoch and epochs[0][1] < end:
            raise InvariantViolated(
                f"{who} had no records, and begins at {epochs[0][1]}; the tier has them up to {end}"
            )

    def _check_claim(
        self, who: str, process: BrokerProcess, partition: Partition, key: Key, seen: _Seen, tree: Tree
    ) -> None:
        tier = process.broker.tier
        state = None if tier is None else tier.host.states.get(partition)
        if state is None or not state.is_claimed:
            return
        claim = (tree.root.sequence, state.claimed_epoch)
        if claim == seen.claim or tree.root.leader_epoch != state.claimed_epoch:
            return
        seen.claim = claim
        log = partition.log
        for batch in self.tiered(key):
            offset = max(batch.base_offset, log.start_offset)
            if offset <= batch.last_offset and _contradicts(log, offset, batch):
                raise InvariantViolated(
                    f"{who} has claimed the tier, where offset {offset} has {batch}, and its log epoch "
                    f"{log.epochs.epoch_at(offset)}: {log.epochs.entries()}"
                )


def _contradicts(log: Log, offset: int, batch: Batch) -> bool:
    """Whether a log has another leader epoch at an offset. Below the first one that it knows, after
    a crash that brought an earlier log start back, it contradicts no older one.
    """
    epochs = log.epochs.entries()
    if epochs and offset < epochs[0][1]:
        return batch.leader_epoch > epochs[0][0]
    return batch.leader_epoch != log.epochs.epoch_at(offset)


def _batches(data: bytes) -> Iterator[Batch]:
    for _, header in iter_batches(data):
        yield Batch(
            header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.producer_id,
            header.base_sequence,
        )  # fmt: skip
