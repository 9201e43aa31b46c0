"""A leader without a batch, whose partition the tier may have: it lost its disk, or is of a cluster
that is being recovered.

Its log is not opened before the tier has answered: records that it appended at offset 0 would
contradict those in the tier, and consumers would be told that their offsets do not exist. Requests
get NOT_LEADER_OR_FOLLOWER meanwhile, and try again. If the tier has the partition, the log goes on
at the end of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from kqueue.base import events
from kqueue.base.errors import KqueueError, LogRecovering
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier.partition_tier import PartitionTier
from kqueue.broker.tier.restarts import Restart, restart_at_end
from kqueue.broker.tier.tier_host import TierHost
from kqueue.log.log import Log
from kqueue.log.log_cut import LogCut
from kqueue.tier.errors import LeaderFenced

logger = logging.getLogger("kqueue.broker")


class Adoptions:
    """The logs that wait for the tier's answer. Thread: owner thread.

    Args: open_log: opens the log of a topic's partition. Raises StorageFailed, LogRecovering.
    """

    def __init__(self, host: TierHost, open_log: Callable[[str, int], Log]) -> None:
        self._host = host
        self._open_log = open_log
        self._waiting: dict[tuple[str, int], PartitionTier] = {}

    def check_open(self, topic: str, index: int) -> None:
        """Raises: LogRecovering: the log of this partition can't be opened yet."""
        if (topic, index) in self._waiting:
            raise LogRecovering(
                f"{topic}-{index} has no batches here, and the tier has not said yet whether it has any"
            )

    def begin(self, partition: Partition) -> None:
        """Ask the tier before the log of a leader is used, if that has no batch here."""
        key = (partition.topic, partition.index)
        if key in self._waiting or self._has_records(partition):
            return
        if partition.is_open:
            partition.detach_log()
        state = self._waiting[key] = self._host.state_of(partition)
        self.retry(state)

    def _has_records(self, partition: Partition) -> bool:
        """Whether the log has, or had, a record. One that retention has emptied ends above 0."""
        logs, key = self._host.logs, (partition.topic, partition.index)
        if not partition.is_open:
            if not logs.has(*key):
                return False
            if logs.may_have_batches(*key):
                return True
        try:
            log = partition.log
        except KqueueError:  # it is being recovered, or can't be opened
            return False
        return log.end_offset > 0 or log.health.failure is not None

    def end(self, partition: Partition) -> None:
        """Wait no more: the broker does not lead the partition any more, or it is deleted."""
        self._waiting.pop((partition.topic, partition.index), None)

    def retry_all(self) -> None:
        """Ask again where the tier could not answer."""
        for state in list(self._waiting.values()):
            self.retry(state)

    def retry(self, state: PartitionTier) -> None:
        """Ask, unless that is under way."""
        if state.is_busy or not self._host.is_ours:
            return
        reader, manifest, epoch = self._host.reader, state.manifest, state.partition.leader_epoch
        state.is_busy = True

        def run() -> Restart | None:
            manifest.refresh()
            if not manifest.exists:
                return None
            manifest.claim(epoch, None)
            return restart_at_end(reader, manifest)

        self._host.manifests.submit(
            f"ask the tier for {manifest.partition}", run, partial(self._answered, state, epoch)
        )

    def _answered(self, state: PartitionTier, epoch: int, restart: Restart | None, error: BaseException | None) -> None:
        state.is_busy = False
        partition = state.partition
        if self._waiting.get((partition.topic, partition.index)) is not state:
            return
        if not partition.is_leader:
            self.end(partition)
        elif partition.leader_epoch != epoch:
            self.retry(state)  # elected again: the log is as empty as before
        elif error is not None:
            if isinstance(error, LeaderFenced):
                state.fenced_epoch = epoch
            self._host.failed(state, error)
        elif restart is None:
            self._release(state)
        else:
            state.claimed_epoch = epoch
            state.show()
            self._restart(state, restart)

    def _restart(self, state: PartitionTier, restart: Restart) -> None:
        host, partition = self._host, state.partition
        state.is_busy = True

        def cut(error: KqueueError | None) -> None:
            state.is_busy = False
            if error is not None:
                host.failed(state, error)
                return
            log.tiered_end = state.manifest.end_offset
            events.TIER_ADOPTED.log(
                logger,
                "%s-%d: no batch was here: it goes on at offset %d, where the tier ends; the log starts at %d",
                topic=partition.topic,
                partition=partition.index,
                offset=restart.offset,
                log_start_offset=restart.state.start_offset,
            )
            self._release(state)

        try:
            # For the cut only: the partition does not use it before that has ended.
            log = self._open_log(partition.topic, partition.index)
            if log.health.failure is not None:
                raise log.health.failure
            if log.end_offset > restart.offset:
                # It was emptied by retention; its offsets are used, though the tier ends before.
                state.is_busy, state.claimed_epoch = False, -1
                self._release(state)
                return
            host.partitions.replicas.cut_log(partition, LogCut(log, restart.offset, state=restart.state), cut)
        except LogRecovering:
            state.is_busy = False  # the next round finds it recovered
        except KqueueError as error:
            cut(error)

    def _release(self, state: PartitionTier) -> None:
        partition = state.partition
        self.end(partition)
        self._host.purgatory.wake(partition)
        if partition.is_leader and len(partition.replicas) > 1:
            self._host.partitions.replicas.open_soon(partition)
