"""The broker: composes logs, groups and metadata into what the APIs call. Knows no wire protocol,
socket or event loop.

One thread owns it. It is given its time, randomness, storage and jobs, and reaches for none of
them.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptData, StorageFailed, TooManyOpenFiles
from kqueue.base.jobs import Jobs
from kqueue.base.promise import Promise
from kqueue.base.settings import Config
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker import folder_import
from kqueue.broker.append_queue import AppendScheduler
from kqueue.broker.cleanup_scheduler import CleanupScheduler
from kqueue.broker.deleted_topics import DeletedTopics, deleted_topics
from kqueue.broker.fetch_sessions import FetchSessions
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.broker.offsets_topic import OffsetsTopicLog
from kqueue.broker.partition import Partition
from kqueue.broker.producer_ids import ProducerIds
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.record_deletion import RecordDeletion
from kqueue.broker.topics import Topic, Topics
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.metadata.store import MetadataStore

logger = logging.getLogger("kqueue.broker")
EPOCH_KEY = "/leader_epoch"
Endpoints = Callable[[str], tuple[str, int]]


class Broker:
    """One broker, whole but for the network. `start` before any use, `stop` once; both block, and
    belong to the owner thread.

    `logs` must have been opened, `store` be ready to read. `endpoints(listener)` gives the address
    that clients of this listener are told to connect to next; whoever opens listeners sets it.
    """

    def __init__(
        self,
        config: Config,
        logs: LogManager,
        store: MetadataStore,
        *,
        clock: Clock,
        jobs: Jobs,
        rng: random.Random,
        timers: Timers | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.jobs = jobs
        self.logs = logs
        self.timers = timers or Timers(clock)
        self.purgatory = Purgatory(self.timers, clock)
        self.append_scheduler = AppendScheduler(self.purgatory, jobs, clock)
        self.node_id = node_id(config)
        self.rack: str | None = config["broker.rack"]
        self.leader_epoch = 0
        # memory has nothing to flush: what was appended is as safe as it will ever be
        on_disk = config["kqueue.storage"] != "memory"
        self.flush_before_visible = on_disk and config["kqueue.flush"] == "group"
        self.flush_by_policy = on_disk and not self.flush_before_visible
        self.verify_reads = bool(config["kqueue.verify.reads"])
        self.endpoints: Endpoints = _no_endpoints
        self._reported: set[str] = set()  # settings without an effect that a topic was created with
        self.metadata = MetadataCache(store, jobs, self.purgatory, logs.make_room)
        self._stopping = False
        self._slices = SliceQueue(self.timers, clock)
        self._leaving: dict[str, list[Topic]] = {}  # deleted topics, by name, until all of their partitions are let go
        self.topics = Topics(config, self.metadata, self, rng, made=self._made, gone=self._gone)
        self.producer_ids = ProducerIds(self.metadata)
        self.kept_record_bytes = 0  # of produce requests that are appended over several turns
        self.fetch_sessions = FetchSessions(config["max.incremental.fetch.session.cache.slots"], clock, rng)
        self._group_log = OffsetsTopicLog(config, self.topics, self.purgatory, clock)
        self.groups = GroupCoordinator(config, clock, self.timers, rng, self._group_log, self._wake)
        self._deleted_topics = DeletedTopics(self.metadata, logs)
        logs.on_removed = self._forget_deleted_topics
        self.cleanup = CleanupScheduler(
            config, self.topics, logs, self.groups.offsets, self.purgatory, jobs, self.timers, clock
        )
        self.deletion = RecordDeletion(logs, self.purgatory, self.cleanup.drop_below_start)

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64; the same as long as the data folder lives."""
        return self.logs.cluster_id

    def start(self) -> None:
        """Take over what the disk holds; a log that can't be opened is named, and the others
        served. Raises StorageFailed: no metadata.
        """
        self.metadata.load()
        folder_import.import_folders(self.metadata, self.logs, self.config)
        self._begin_epoch()
        self.topics.load()
        folder_import.rename_stray_partitions(self.topics, self.logs, deleted_topics(self.metadata))
        self._forget_deleted_topics()
        if self.logs.was_unclean:
            self._recover()
        self._load_groups()
        self._every("log.flush.offset.checkpoint.interval.ms", self.logs.checkpoint_recovery_points)
        self._every("log.flush.offset.checkpoint.interval.ms", self.logs.rebuild_indexes)
        self._every("producer.id.expiration.check.interval.ms", self.logs.expire_producers)
        self._every("replica.high.watermark.checkpoint.interval.ms", self._checkpoint_high_watermarks)
        self.timers.every(self.config["replica.high.watermark.checkpoint.interval.ms"], self.logs.check_locks)
        self.timers.every(self.config["replica.high.watermark.checkpoint.interval.ms"], self.logs.check_space)
        self.cleanup.start()

    def prepare_stop(self) -> None:
        """Finish what is done in slices; call it before the last jobs are waited for.

        Folders that are not made yet are left to the first use of their partitions.
        """
        self._stopping = True
        self._slices.finish()
        self.logs.stop_creating()

    def stop(self) -> None:
        """Flush, write the checkpoints and mark the stop as clean. No job may be under way: see
        `prepare_stop`. Twice is harmless.
        """
        for _ in self._note_high_watermarks():
            pass
        self.logs.close()

    def erase(self) -> None:
        """Delete all topics, records, groups and offsets, for a stop; `stop` is next, once the jobs
        are done. Ids go on.

        Producer ids and the leader epoch stay above those that clients know. Blocks. Raises
        StorageFailed: nothing is deleted.
        """
        for topic in self.topics.clear():
            for partition in topic.partitions:
                self._let_go(partition)

    def open_log(self, topic: str, index: int) -> Log:
        """The log of a partition, for `Partition` alone. Raises StorageFailed."""
        found = self.topics.get(topic)
        for old in self._leaving.get(topic, ()):
            if index < len(old.partitions):
                self._let_go(old.partitions[index])
        return self.logs.open(topic, index, found.id, found.log_config)

    def _begin_epoch(self) -> None:
        stored = self.metadata.get(EPOCH_KEY)
        self.leader_epoch = json.loads(stored) if stored is not None else 0
        if self.logs.was_unclean:
            self.leader_epoch += 1
            logger.warning("the last stop was not clean: checking the logs, leader epoch is now %d", self.leader_epoch)
        if stored is None or self.logs.was_unclean:
            self.metadata.commit_now({EPOCH_KEY: json.dumps(self.leader_epoch).encode()})

    def _recover(self) -> None:
        """Open, and so check, every log that there is; one that can't be is named, and refused to
        whoever asks for it.
        """
        for topic in self.topics:
            for partition in topic.partitions:
                if self.logs.has(topic.name, partition.index):
                    try:
                        partition.log  # noqa: B018  opening it is what recovers it
                    except StorageFailed as error:
                        logger.error("%s-%d can't be recovered: %s", topic.name, partition.index, error)

    def _load_groups(self) -> None:
        """Replay what the groups wrote; those of a partition that can't be read are refused, and
        the others served.
        """
        for partition in self._group_log.used_partitions(self._has_or_had):
            try:
                self.groups.load(partition.index, self._group_log.read(partition))
            except TooManyOpenFiles:
                raise  # these groups are in order: rather no start than one that refuses them for good
            except (StorageFailed, CorruptData) as error:
                logger.error("the groups of %s-%d can't be served: %s", partition.topic, partition.index, error)
                self.groups.refuse(partition.index, str(error))

    def _has_or_had(self, topic: str, index: int) -> bool:
        return self.logs.has(topic, index) or self.logs.unavailable_reason(topic, index) is not None

    def _made(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        self._report_without_effect(topic)
        for partition in partitions if self.logs.offline else ():
            self.logs.expect(topic.name, partition.index)
        if not topic.is_internal:  # there a folder comes when it is first written to
            self._slices.add(self._make_folders(topic, list(partitions)))

    def _report_without_effect(self, topic: Topic) -> None:
        """Warn of settings of a new topic that are kept and have no effect; of each once, since
        clients choose them.
        """
        for name, value in topic.config.overrides.items():
            row = self.config.catalog.topic[name]
            if row.without_effect and value != row.default and name not in self._reported:
                self._reported.add(name)
                logger.warning("topic %s: %s has no effect: %s", topic.name, name, row.doc)

    def _make_folders(self, topic: Topic, partitions: Sequence[Partition]) -> SlicedWork[None]:
        for partition in partitions:
            if self._stopping or self.topics.find(topic.name) is not topic:
                return  # a topic that was deleted meanwhile
            if not self.logs.has(topic.name, partition.index):
                self.logs.create(topic.name, partition.index, topic.id)
            yield None

    def _gone(self, topic: Topic) -> None:
        self._leaving.setdefault(topic.name, []).append(topic)
        self._slices.add(self._remove_folders(topic))
        self.groups.delete_topic(topic.name)

    def _remove_folders(self, topic: Topic) -> SlicedWork[None]:
        for partition in topic.partitions:
            self._let_go(partition)
            yield None
        self._leaving[topic.name].remove(topic)
        if not self._leaving[topic.name]:
            del self._leaving[topic.name]
        self._forget_deleted_topics()

    def _forget_deleted_topics(self) -> None:
        if not self._leaving:
            self._deleted_topics.forget()

    def _let_go(self, partition: Partition) -> None:
        if not partition.deleted:
            partition.mark_deleted()
            self.logs.delete(partition.topic, partition.index)
            self.cleanup.forget(partition)

    def _wake(self, promise: Promise[object]) -> None:
        self.purgatory.wake(promise)

    def _every(self, setting: str, steps: Callable[[], SlicedWork[Any]]) -> None:
        """Do upkeep of all logs in slices. What is not over when it is due again is not begun
        twice.
        """
        name = f"{setting} {steps.__name__}"
        self.timers.every(self.config[setting], lambda: self._slices.add_once(name, steps()))

    def _checkpoint_high_watermarks(self) -> SlicedWork[None]:
        yield from self._note_high_watermarks()
        self.logs.save_high_watermarks()

    def _note_high_watermarks(self) -> SlicedWork[None]:
        for topic in self.topics:
            for partition in topic.partitions:
                if partition.is_open:
                    self.logs.note_high_watermark(topic.name, partition.index, partition.high_watermark)
                    yield None


def node_id(config: Config) -> int:
    """The number of this broker: `node.id`, or `broker.id` where only that is set."""
    name = "broker.id" if config.is_set("broker.id") and not config.is_set("node.id") else "node.id"
    return int(config[name])


def _no_endpoints(listener: str) -> tuple[str, int]:
    raise AssertionError("no listener is open yet")
