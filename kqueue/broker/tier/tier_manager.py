"""Tiered storage of a broker as a whole: whose turn it is, and what topics and leaderships begin or
end. Source: Kafka's RemoteLogManager.

At each interval, and after each change of a leader, it looks at the partitions of all tiered
topics:

    leader      `leader_tasks`: claim, expire, copy
    follower    reads the manifest again: what the tier has may be deleted here
    no batches  `adoptions`: a leader that may have lost its disk asks the tier first

Nothing is written before it is known whose tier it is. What fails is tried again at the next
interval. Objects of deleted topics, and of those that are tiered no more, are deleted by
`tier_deletions`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.base.settings import format_value
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier.adoptions import Adoptions
from kqueue.broker.tier.leader_tasks import LeaderTasks
from kqueue.broker.tier.restarts import restart_at
from kqueue.broker.tier.tier_deletions import TierDeletions
from kqueue.broker.tier.tier_host import TierHost
from kqueue.broker.tier.tier_objects import OtherCluster, check_cluster, write_topic
from kqueue.broker.tier.tier_reads import TierReads
from kqueue.broker.tier_config import TASK_INTERVAL_MS
from kqueue.broker.topics.topics import Topic, TopicEvents
from kqueue.broker.upkeep.log_upkeep import LogUpkeep
from kqueue.log.log_cut import RestartState
from kqueue.log.results import TieredReadResult, TimestampAndOffset
from kqueue.tier.errors import TierUnavailable
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.lineage import Lineage

logger = logging.getLogger("kqueue.broker")


class TierManager(TopicEvents):
    """The tiered storage of one broker. Thread: owner thread.

    Attributes:
        reads: for clients.
        leaders: the tasks of leaders.
        refusal: why nothing is written; None: nothing speaks against it.
    """

    def __init__(self, host: TierHost, upkeep: LogUpkeep, metadata: BrokerMetadata) -> None:
        self.host = host
        self._config, self._topics, self._logs = host.config, host.topics, host.logs
        self._scheduler = host.scheduler
        self._is_checking = False
        self.refusal: KqueueError | None = None
        self._unused: set[Partition] = set()
        self._written: dict[bytes, TopicRecord] = {}  # topic records, as written last
        self.leaders = LeaderTasks(host, upkeep.cleanup.drop_below_start)
        self.reads = TierReads(host)
        self.adoptions = Adoptions(host, upkeep.folders.open_log)
        self.deletions = TierDeletions(host, metadata.cache, upkeep.folders)
        host.partitions.tier = self

    def start(self, *, is_alone: bool) -> None:
        """Begin: the topics are loaded.

        Args: is_alone: a single broker, which emits no event of leaders: it leads all.
        """
        for topic in self._topics if is_alone else ():
            for partition in topic.partitions if topic.log_config.tiered else ():
                self.adoptions.begin(partition)
        self.deletions.start()
        interval_ms = self._config[TASK_INTERVAL_MS]
        self._scheduler.timers.every(interval_ms, self._begin_round, first_after_ms=0)

    def stop(self) -> None:
        """Begin nothing more, and end the jobs under way.

        A copy that is cut off begins again at the next start. A store that does not answer would
        hold up the stop otherwise.
        """
        self.leaders.stop()
        self.host.stop()

    def tiered_bytes(self, partition: Partition) -> int:
        """Return the bytes of batches that the tier has of a partition, as far as it is known."""
        state = self.host.states.get(partition)
        return 0 if state is None else state.view.root.size

    # --- partitions; see `partition_host.Tier`

    @property
    def wait_ms(self) -> int:
        return self.reads.wait_ms

    def find(
        self, partition: Partition, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> TieredReadResult | None:
        return self.reads.find(partition, offset, max_bytes, read_committed=read_committed, min_one_batch=min_one_batch)

    def start_read(self, partition: Partition, offset: int, max_bytes: int, *, read_committed: bool) -> None:
        self.reads.start(partition, offset, max_bytes, read_committed=read_committed)

    def find_time(
        self,
        partition: Partition,
        timestamp: int,
        end_offset: int,
        done: Callable[[TimestampAndOffset | KqueueError | None], None],
    ) -> None:
        self.reads.find_time(partition, timestamp, end_offset, done)

    def check_open(self, topic: str, index: int) -> None:
        self.adoptions.check_open(topic, index)

    def log_was_cut(self, partition: Partition) -> None:
        self.reads.forget(partition)

    def log_given_up(self, partition: Partition) -> None:
        self.reads.forget(partition)
        topic = self._topics.find(partition.topic)
        if topic is not None and topic.log_config.tiered and partition.is_leader:
            self.adoptions.begin(partition)  # elected during the cut, which may have left no batch

    def restart_state(
        self, partition: Partition, offset: int, done: Callable[[RestartState | KqueueError], None]
    ) -> None:
        state, reader, epoch = self.host.state_of(partition), self.host.reader, partition.leader_epoch

        def run() -> RestartState:
            root = state.view.refresh()
            if root.leader_epoch < epoch:
                # It may have records, and so epochs, that the leader's log contradicts.
                raise TierUnavailable(
                    f"{state.view.partition}: the leader of epoch {epoch} has not claimed the tier yet, which is that "
                    f"of epoch {root.leader_epoch}"
                )
            return restart_at(reader, state.view, offset)

        def finish(restart: RestartState | None, error: BaseException | None) -> None:
            if restart is not None:
                done(restart)
            else:
                done(error if isinstance(error, KqueueError) else KqueueError(repr(error)))

        self.host.follows.submit(f"find the state of {state.view.partition} in the tier", run, finish)

    # --- rounds

    def _begin_round(self) -> None:
        self.reads.expire()
        if not self.host.is_ours:
            self._check_store()
            return
        self._scheduler.slices.add_once("tier", self._look_at_all())

    def _look_at_all(self) -> SlicedWork[None]:
        self.deletions.retry()
        self.adoptions.retry_all()
        for topic in self._topics:
            if not topic.log_config.tiered:
                continue
            self._write_record(topic)
            for each in topic.partitions:
                self._look_at(each)
                yield None

    def _look_at(self, partition: Partition) -> None:
        if partition.deleted or not partition.has_replica or not self.host.is_ours:
            return
        if not partition.is_open and self._is_unused(partition):
            return  # nothing to copy, and nothing to delete
        if partition.is_leader:
            state = self.host.state_of(partition)
            state.is_due = True
            self.leaders.advance(state)
        else:
            self._follow(partition)

    def _is_unused(self, partition: Partition) -> bool:
        """Whether a log that is closed has no batches; its folder is listed once only."""
        if partition not in self._unused:
            if self._logs.may_have_batches(partition.topic, partition.index):
                return False
            self._unused.add(partition)
        return True

    def _follow(self, partition: Partition) -> None:
        """Read again what the tier has, if a segment here may be deleted then.

        Only what the log here agrees with counts. After an unclean election the tier has records of
        a former leader until the new one claims it, and the other way round: this log may have
        those that the new leader lacks, until it is cut, or is elected in its turn.
        """
        try:
            log = partition.log
        except KqueueError:  # its requests say why
            return
        state = self.host.state_of(partition)
        if state.is_busy or len(log.segments) == 1 or log.health.failure is not None:
            return
        state.is_busy = True
        epochs, view = log.epochs.entries(), state.view
        lineage = Lineage(epochs, log.epochs.latest, log.end_offset)
        start = max(log.local_start_offset, log.start_offset)

        def run() -> int:
            view.refresh()
            return min(lineage.agreed_end(view.segments(start), start), view.end_offset)

        def finish(agreed_end: int | None, error: BaseException | None) -> None:
            state.is_busy = False
            if error is not None:
                self.host.failed(state, error)
                return
            state.logged = ""
            is_same = not partition.deleted and not partition.is_leader and partition.uses(log)
            # With another epoch the log may have been cut since, and agree with less. It may have
            # been cut within an epoch, too: what comes at its end may be of the next one.
            if is_same and log.epochs.entries() == epochs:
                log.tiered_end = min(agreed_end or 0, log.end_offset)

        self.host.follows.submit(f"read the manifest of {view.partition}", run, finish)

    # --- whose tier it is

    def _check_store(self) -> None:
        if self._is_checking:
            return
        self._is_checking = True
        store, cluster_id, now_ms = self.host.store, self._logs.cluster_id, self.host.clock.wall_ms()

        def run() -> None:
            check_cluster(store, cluster_id, now_ms)

        def finish(_: None, error: BaseException | None) -> None:
            self._is_checking = False
            if error is None:
                self.host.is_ours, self.refusal = True, None
                self._begin_round()
                return
            known = str(self.refusal)
            self.refusal = error if isinstance(error, KqueueError) else KqueueError(repr(error))
            if known != str(self.refusal):
                event = events.TIER_REFUSED if isinstance(error, OtherCluster) else events.TIER_UNREACHABLE
                event.log(logger, "nothing is copied into the tier: %s", error=self.refusal)

        self.host.manifests.submit("look whose tier it is", run, finish)

    # --- topics

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        if topic.log_config.tiered:
            self._write_record(topic)

    def configured(self, topic: Topic) -> None:
        if topic.log_config.tiered:
            self.deletions.cancel(topic)
            self._write_record(topic)
            return
        for partition in topic.partitions:
            if partition in self.host.states or self._is_below_first_segment(partition):
                self._end(topic, partition)

    def deleted(self, topic: Topic) -> None:
        self._written.pop(topic.id, None)
        for partition in topic.partitions:
            self._forget(partition)
        if topic.log_config.tiered or self.deletions.is_pending(topic.id):
            self.deletions.delete_topic(topic.name, topic.id)

    def _end(self, topic: Topic, partition: Partition) -> None:
        """Go on without the tier: the log starts with what is here."""
        self._forget(partition)
        try:
            log = partition.log
        except KqueueError:
            return
        log.tiered_end = 0
        log.advance_start(max(log.start_offset, log.segments.base_offset))
        self._logs.checkpoints.save_log_starts((partition.topic, partition.index), lambda error: None)
        partition.log_start_moved()
        if partition.is_leader:
            self.deletions.delete_partition(topic, partition.index)

    def _is_below_first_segment(self, partition: Partition) -> bool:
        return partition.is_open and partition.log.start_offset < partition.log.segments.base_offset

    def _forget(self, partition: Partition) -> None:
        self._unused.discard(partition)
        self.host.states.pop(partition, None)
        self.adoptions.end(partition)
        self.reads.forget(partition)

    def _write_record(self, topic: Topic) -> None:
        """Write the topic's record where it has changed; the leader of its first partition does."""
        if not self.host.is_ours or not topic.partitions or not topic.partitions[0].is_leader:
            return
        record = TopicRecord(
            topic.name,
            topic.id,
            len(topic.partitions),
            len(topic.partitions[0].replicas),
            {name: str(format_value(value)) for name, value in topic.config.overrides.items()},
        )
        if self._written.get(topic.id) == record:
            return
        self._written[topic.id] = record
        store, created_ms = self.host.store, self.host.clock.wall_ms()

        def run() -> None:
            write_topic(store, replace(record, created_ms=created_ms))

        def finish(_: None, error: BaseException | None) -> None:
            if error is not None and self._written.get(record.topic_id) == record:
                del self._written[record.topic_id]  # the next round tries again

        self.host.manifests.submit(f"write the record of topic {record.topic} in the tier", run, finish)

    # --- leaders; see `ReplicaEvents`

    def became_leader(self, partition: Partition) -> None:
        topic = self._topics.find(partition.topic)
        if topic is None:
            return
        if not topic.log_config.tiered:
            self.deletions.resume(topic, partition)
            return
        self._forget_end(partition)
        if partition.leader_epoch > 0:  # else it is new, and the tier can't have it
            self.adoptions.begin(partition)
        self._scheduler.purgatory.run_in_later_turn(lambda: self._look_at(partition))

    def became_follower(self, partition: Partition) -> None:
        self.adoptions.end(partition)
        self._forget_end(partition)

    def _forget_end(self, partition: Partition) -> None:
        """Delete nothing here until it is known what the tier has in this leader epoch: that of an
        unclean election may have cut it.
        """
        state = self.host.states.get(partition)
        if partition.is_open and (state is None or not state.is_claimed):
            partition.log.tiered_end = 0

    def removed(self, partition: Partition) -> None:
        self._forget(partition)
