"""All upkeep of one broker: what happens to its logs without a request for their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kqueue.base.config import Config
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.topics.deleted_topics import DeletedTopics
from kqueue.broker.topics.topics import Topic, TopicEvents, Topics
from kqueue.broker.upkeep.backlog import Backlogs
from kqueue.broker.upkeep.cleanup_scheduler import CleanupScheduler
from kqueue.broker.upkeep.log_dir_moves import LogDirMoves
from kqueue.broker.upkeep.log_recovery import LogRecovery
from kqueue.broker.upkeep.log_timers import LogTimers
from kqueue.broker.upkeep.record_deletion import RecordDeletion
from kqueue.broker.upkeep.topic_folders import TopicFolders
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.log.manager import LogManager
from kqueue.log.recovery.recovery_task import LogToRecover
from kqueue.storage import Storage

ALTER_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class LogUpkeep(TopicEvents):
    """Recovers, cleans, moves and deletes logs. Thread: owner thread.

    Attributes:
        recovery: of logs after a crash.
        cleanup: the cleanup policies.
        moves: of logs between data folders.
        deletion: of records, which clients ask for.
        backlogs: bounds of what is unread.
        folders: of new topics and of deleted ones.
        timers: what is done with all logs from time to time.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        logs: LogManager,
        metadata: BrokerMetadata,
        groups: GroupCoordinator,
        scheduler: Scheduler,
        *,
        on_settled: Callable[[Partition], None],
        on_dropped: Callable[[], None],
    ) -> None:
        """Args:
        groups: whose committed offsets bound what may be deleted, and what is unread.
        on_settled: called with each partition whose log was recovered or can't be.
        on_dropped: called when the recovery has to do no more with the logs of a deleted topic.
        """
        jobs, timers, clock, purgatory = scheduler.jobs, scheduler.timers, scheduler.clock, scheduler.purgatory
        self._topics = topics
        self._logs = logs
        self._on_dropped = on_dropped
        self.backlogs = Backlogs(timers, clock, groups.offsets_of_topic, logs.may_have_batches)
        groups.observe_offsets(self.backlogs.committed)
        jobs_max = config["num.recovery.threads.per.data.dir"]
        self.recovery = LogRecovery(logs, jobs, clock, jobs_max, self._log_to_recover, on_settled)
        self.cleanup = CleanupScheduler(config, topics, logs, groups.offsets, purgatory, jobs, timers, clock)
        self.moves = LogDirMoves(topics, logs, self.cleanup, timers, lambda: int(config[ALTER_LOG_DIRS_RATE]))
        self.deletion = RecordDeletion(logs, purgatory, self.cleanup.drop_below_start)
        deleted = DeletedTopics(metadata.cache, logs, metadata.cluster)
        self.folders = TopicFolders(topics, logs, deleted, self.recovery, self.moves, self.cleanup, scheduler.slices)
        self.timers = LogTimers(config, topics, logs, scheduler)

    def begin_recovery(self) -> None:
        """Begin to recover the logs that a crash left, in jobs."""
        unrecovered = set(self._logs.unrecovered())
        if unrecovered:
            self.recovery.start(
                partition
                for topic in self._topics
                for partition in topic.partitions
                if (topic.name, partition.index) in unrecovered
            )

    def start(self) -> None:
        """Start the timers."""
        self.timers.start()
        self.cleanup.start()

    def stop(self) -> None:
        """Begin nothing more; a log that is being moved or recovered stays for the next start."""
        self.folders.stop()
        self.moves.stop()
        self.recovery.stop()

    def delete(self, topic: Topic) -> None:
        """Delete the logs of a topic that is not known any more. Blocks."""
        self.backlogs.forget(topic)
        for partition in topic.partitions:
            self.folders.delete(partition)

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        self.configured(topic)
        self.folders.create(topic, partitions)

    def configured(self, topic: Topic) -> None:
        self.backlogs.configure(topic)
        self.cleanup.report_again(topic)

    def deleted(self, topic: Topic) -> None:
        self.backlogs.forget(topic)
        self.folders.delete_all(topic)
        self._on_dropped()

    def _log_to_recover(self, partition: Partition) -> tuple[Storage, LogToRecover]:
        topic = self._topics.get(partition.topic)
        return self._logs.log_to_recover(topic.name, partition.index, topic.id, topic.log_config)
