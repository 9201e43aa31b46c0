"""What a broker knows of the tier's part of one partition."""

from __future__ import annotations

from kqueue.broker.replicas.partition import Partition
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore


class PartitionTier:
    """The tier's part of a partition. Thread: owner thread, but for the manifests in jobs.

    Attributes:
        manifest: for the changes of a leader, one job at a time.
        view: for reads. A manifest of its own, because a change holds its lock while the store is
            slow.
        claimed_epoch: the leader epoch in which this broker has claimed the manifest; -1: none.
        fenced_epoch: the leader epoch that a later leader's ended; nothing is written in it.
        empty_epoch: the leader epoch in which there was no manifest, and nothing to copy yet; -1:
            none.
        is_busy: whether a job changes the manifest, or reads it for a follower.
        is_due: whether expired segments are to be looked for, before the next copy.
        damaged_base: base offset of a segment that is damaged here, and so is not copied; -1: none.
        logged: the last error that was logged, so that each is logged once.
    """

    __slots__ = (
        "claimed_epoch", "damaged_base", "empty_epoch", "fenced_epoch", "is_busy", "is_due", "logged", "manifest",
        "partition", "view",
    )  # fmt: skip

    def __init__(self, store: TierStore, partition: Partition, topic_id: bytes) -> None:
        tiered = TieredPartition(partition.topic, topic_id, partition.index)
        self.partition = partition
        self.manifest = Manifest(store, tiered)
        self.view = Manifest(store, tiered)
        self.claimed_epoch = self.empty_epoch = self.fenced_epoch = -1
        self.is_busy = self.is_due = False
        self.damaged_base = -1
        self.logged = ""

    def __repr__(self) -> str:
        return f"PartitionTier({self.manifest.partition})"

    @property
    def is_claimed(self) -> bool:
        """Whether this broker leads, and has claimed the manifest in its present epoch."""
        partition = self.partition
        return partition.is_leader and self.claimed_epoch == partition.leader_epoch

    def show(self) -> None:
        """Let reads see what the leader has written."""
        self.view.root = self.manifest.root
