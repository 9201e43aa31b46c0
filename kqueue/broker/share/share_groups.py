"""The share partitions of a broker: opened on first use from their persisted state.

    sessions       what each member fetches
    coordinator    the persisted states that this broker has
    states         those of all share partitions, wherever they are
    partitions     the in-flight records; memory only, so a start opens none

Source: Kafka's SharePartitionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidTopic,
    KqueueError,
    NotCoordinator,
    NotLeader,
    UnknownTopicOrPartition,
)
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.configs.config_targets import NamedTarget
from kqueue.broker.coordinators.internal_topic_log import ShareTopicLog
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.replicas.append_queue import AppendScheduler
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.share.dead_letters import DeadLetters, DeadLetterSource
from kqueue.broker.share.share_persister import SharePersister
from kqueue.broker.topics.topics import Topic, TopicEvents, Topics
from kqueue.broker.upkeep.record_deletion import RecordDeletion
from kqueue.groups.share.records import StateTopic
from kqueue.share.config import DEAD_LETTER_TOPIC, EARLIEST, WRITE_TIMEOUT, ShareGroupConfig
from kqueue.share.coordinator import ShareCoordinator
from kqueue.share.errors import NoShareState
from kqueue.share.sessions import ShareSession, ShareSessions
from kqueue.share.share_partition import Acknowledgement, DeadRange, Done, RecordLocks, ShareCounts, SharePartition
from kqueue.share.share_state import NO_OFFSET, UNCHANGED, SharePartitionKey, ShareState, ShareUpdate

logger = logging.getLogger("kqueue.broker")
PRUNE_INTERVAL_MS = 300_000
"""Interval between deletions of redundant records of `__share_group_state`, as Kafka's default."""
LOAD_RETRY_MS = 100
OPEN_RETRY_MS = 100
"""Until the next try to open a share partition: each answer of another broker wakes the fetches
that wait for it, which would ask again at once, without end.
"""


class ShareGroups(TopicEvents):
    """All share groups of one broker. Thread: the owner thread.

    Attributes:
        log: of `coordinator`.
        ask_end: calls its second argument later with a partition's high watermark, which another
            broker leads, or an error; None: in a single broker. Raises: NotLeader.

    Durability: see `SharePartition`, `ShareCoordinator`.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        metadata: BrokerMetadata,
        group_settings: NamedTarget,
        deletion: RecordDeletion,
        appends: AppendScheduler,
        scheduler: Scheduler,
    ) -> None:
        """Args: appends: runs appends of dead letters beside the others."""
        clock, timers, purgatory = scheduler.clock, scheduler.timers, scheduler.purgatory
        self.clock = clock
        self.timers = timers
        self.locks = RecordLocks(lambda: int(config["kqueue.max.share.record.locks"]))
        self.sessions = ShareSessions(lambda: int(config["group.share.max.share.sessions"]))
        self.log = ShareTopicLog(config, topics, purgatory, clock, deletion)
        self.coordinator = ShareCoordinator(
            self.log,
            clock,
            lambda: int(config["share.coordinator.snapshot.update.records.per.snapshot"]),
            lambda: int(config["kqueue.max.share.partitions"]),
        )
        self.states = SharePersister(lambda: metadata.cluster, topics, self.coordinator, timers, clock)
        self.ask_end: Callable[[Partition, Callable[[int | KqueueError], None]], None] | None = None
        self.dead_letters = DeadLetters(topics, appends, purgatory, clock)
        self._config = config
        self._topics = topics
        self._group_settings = group_settings
        self._purgatory = purgatory
        self._slices = SliceQueue(timers, clock)
        self._open: dict[SharePartitionKey, OpenSharePartition] = {}
        self._counts: dict[str, ShareCounts] = {}
        self._configs: dict[str, ShareGroupConfig] = {}
        self._generation = -1
        timers.every(PRUNE_INTERVAL_MS, lambda: self._slices.add_once("prune", self.coordinator.prune()))

    @property
    def write_timeout_ms(self) -> int:
        """Time that a request waits for the share coordinators."""
        return int(self._config[WRITE_TIMEOUT])

    def config_of(self, group: str) -> ShareGroupConfig:
        """Return the present values of a group."""
        if self._generation != self._group_settings.generation:
            self._generation = self._group_settings.generation
            self._configs.clear()
        config = self._configs.get(group)
        if config is None:
            if len(self._configs) >= 1000:
                self._configs.clear()
            config = self._configs[group] = ShareGroupConfig.of(self._config, self._group_settings.own(group))
        return config

    def open(self, group: str, topic_id: bytes, index: int) -> OpenSharePartition:
        """Return a share partition; it may still be opening.

        Raises: UnknownTopicId, UnknownTopicOrPartition. NotLeader: another broker leads it.
            InvalidTopic: the group's own dead-letter topic. NoShareState.
            NotCoordinator: its state can't be read.
        """
        key = SharePartitionKey(group, topic_id, index)
        opened = self._open.get(key)
        partition = self._topics.by_id(topic_id).partition(index) if opened is None else opened.partition
        partition.check_leader()
        if opened is None:
            opened = self._open[key] = OpenSharePartition(self, key, partition)
        opened.check_topic()
        opened.open()
        return opened

    def find(self, group: str, topic_id: bytes, index: int) -> OpenSharePartition | None:
        """Return a share partition that was opened, or None."""
        return self._open.get(SharePartitionKey(group, topic_id, index))

    def counts_of(self, group: str) -> ShareCounts:
        """Return the counts of a group, which are kept until it is deleted."""
        return self._counts.setdefault(group, ShareCounts())

    def in_use(self) -> list[OpenSharePartition]:
        """Return the share partitions that are open, or opening."""
        return list(self._open.values())

    def groups_with_counts(self) -> list[str]:
        """Return the groups whose share partitions were opened here since the start."""
        return list(self._counts)

    def acknowledge(
        self,
        group: str,
        member_id: str,
        topic_id: bytes,
        index: int,
        acknowledgements: Sequence[Acknowledgement],
        done: Done,
    ) -> None:
        """Apply a member's acknowledgements of one partition; `done` as of
        `SharePartition.acknowledge`, and with UnknownTopicOrPartition, UnknownTopicId, NotLeader.
        """
        opened = self._open.get(SharePartitionKey(group, topic_id, index))
        try:
            self._topics.by_id(topic_id).partition(index).check_leader()
        except KqueueError as error:
            done(error.with_traceback(None))
            return
        if opened is None or opened.share is None:
            done(UnknownTopicOrPartition(f"nobody of group {group!r} has acquired records of partition {index}"))
        else:
            opened.share.acknowledge(member_id, acknowledgements, done)

    def end_session(self, session: ShareSession) -> Promise[None]:
        """End a session and release what its member holds; the promise is done when that is
        persisted, or can't be: then the locks end by themselves.
        """
        self.sessions.remove(session.key)
        group, member_id = session.key
        promise: Promise[None] = Promise()
        # One more than there are, taken back at the end: `release` may call back at once, and the
        # first one would resolve the promise.
        waiting = 1

        def released(error: KqueueError | None) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                promise.resolve(None)
                self._purgatory.wake(promise)

        for topic_id, index in session.partitions:
            opened = self._open.get(SharePartitionKey(group, topic_id, index))
            if opened is not None and opened.share is not None:
                waiting += 1
                opened.share.release(member_id, released)
        released(None)
        return promise

    # --- states, for the membership of groups

    def initialize(self, group: str, partitions: Mapping[bytes, StateTopic], state_epoch: int, done: Done) -> None:
        """Give share partitions a state where they have none; see `groups.share.manager`."""
        failures: list[KqueueError] = []
        keys = [
            SharePartitionKey(group, topic_id, index)
            for topic_id, topic in partitions.items()
            for index in topic.partitions
        ]
        # One more, as in `end_session`: outcomes may come within the loop.
        waiting = len(keys) + 1

        def initialized(error: KqueueError | None) -> None:
            nonlocal waiting
            waiting -= 1
            if error is not None:
                failures.append(error)
            if not waiting:
                done(failures[0] if failures else None)

        def read(key: SharePartitionKey, state: ShareState | KqueueError | None) -> None:
            if state is None:
                self.states.initialize(key, state_epoch, NO_OFFSET, initialized)
            else:
                initialized(state if isinstance(state, KqueueError) else None)

        for key in keys:
            self.states.read(key, UNCHANGED, partial(read, key))
        initialized(None)

    def reset(self, key: SharePartitionKey, start_offset: int) -> Promise[None]:
        """Let a share partition begin at `start_offset`; return a promise that is settled once
        that is persisted.
        """
        promise: Promise[None] = Promise()
        done = self.settles(promise)

        def read(state: ShareState | KqueueError | None) -> None:
            if isinstance(state, KqueueError):
                done(state)
                return
            # Closed before the new state is written: acknowledgements of the old one are refused,
            # not applied to the new start.
            self.close(key)
            self.states.initialize(key, 0 if state is None else state.state_epoch + 1, start_offset, done)

        self.states.read(key, UNCHANGED, read)
        return promise

    def delete(self, key: SharePartitionKey) -> Promise[None]:
        """Forget a share partition, in memory and persisted; return a promise of both."""
        promise: Promise[None] = Promise()
        self.close(key)
        self.states.delete(key, self.settles(promise))
        return promise

    def summary(self, key: SharePartitionKey) -> Promise[ShareState | None]:
        """Return a promise of what is persisted of a share partition, without its batches."""
        promise: Promise[ShareState | None] = Promise()

        def read(state: ShareState | KqueueError | None) -> None:
            if isinstance(state, KqueueError):
                promise.fail(state)
            else:
                promise.resolve(state)
            self._purgatory.wake(promise)

        self.states.read_summary(key, read)
        return promise

    def end_of(self, partition: Partition) -> Promise[int]:
        """Return a promise of the high watermark, as the partition's leader has it. It fails where
        nobody leads, or the leader does not answer.
        """
        promise: Promise[int] = Promise()

        def settle(end: int | KqueueError) -> None:
            promise.fail(end) if isinstance(end, KqueueError) else promise.resolve(end)
            self._purgatory.wake(promise)

        try:
            if self.ask_end is not None and not partition.is_leader:
                self.ask_end(partition, settle)
            else:
                partition.check_leader()
                settle(partition.high_watermark)
        except KqueueError as error:
            settle(error)
        return promise

    def settles(self, promise: Promise[None]) -> Done:
        """Return a `done` that settles `promise`, and wakes what waits for it."""

        def done(error: KqueueError | None) -> None:
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(error)
            self._purgatory.wake(promise)

        return done

    def delete_group(self, group: str, partitions: Mapping[bytes, StateTopic]) -> None:
        """Forget the share partitions of a group. `partitions`: those that have a state, or may."""
        for key in [key for key in self._open if key.group == group]:
            self.close(key)
        self._counts.pop(group, None)
        self._slices.add(self._delete_states(lambda key: key.group == group))
        if self.states.remote is not None:
            self._slices.add(self._delete_remote_states(group, partitions))

    def connection_closed(self, connection: object) -> None:
        """End the sessions of a connection. Source: Kafka's ConnectionDisconnectListener."""
        for session in self.sessions.of_connection(connection):
            self.end_session(session)

    def deleted(self, topic: Topic) -> None:
        """Forget the share partitions of a topic, in memory and persisted."""
        for key in [key for key in self._open if key.topic_id == topic.id]:
            self.close(key)
        self._slices.add(self._delete_states(lambda key: key.topic_id == topic.id))

    def _delete_states(self, is_gone: Callable[[SharePartitionKey], bool]) -> SlicedWork[None]:
        """Delete states that this broker's coordinator has."""
        for key in list(self.coordinator.keys()):
            if is_gone(key):
                self.states.delete(key, partial(_log_failure, key))
            yield None

    def _delete_remote_states(self, group: str, partitions: Mapping[bytes, StateTopic]) -> SlicedWork[None]:
        for topic_id, topic in partitions.items():
            for index in topic.partitions:
                key = SharePartitionKey(group, topic_id, index)
                self.states.delete(key, partial(_log_failure, key))
                yield None

    # --- leaders

    def became_leader(self, partition: Partition) -> None:
        """Begin anew: what another leader has done meanwhile is persisted."""
        self._close_partition(partition)

    def became_follower(self, partition: Partition) -> None:
        """Forget what is in flight: the new leader has the records that were not acknowledged."""
        self._close_partition(partition)

    def removed(self, partition: Partition) -> None:
        """Forget what is in flight."""
        self._close_partition(partition)

    def _close_partition(self, partition: Partition) -> None:
        for key in [key for key, opened in self._open.items() if opened.partition is partition]:
            self.close(key)

    def close(self, key: SharePartitionKey) -> None:
        """Close a share partition; it opens again at its next use."""
        opened = self._open.pop(key, None)
        if opened is not None:
            opened.is_closed = True
            if opened.share is not None:
                opened.share.close()
            self._purgatory.wake(opened)

    def start_offset(self, key: SharePartitionKey, partition: Partition) -> SlicedWork[int]:
        """Return where a group begins to read a partition (`share.auto.offset.reset`)."""
        reset = self.config_of(key.group).offset_reset
        if isinstance(reset, int):
            end = partition.high_watermark
            entry = yield from partition.log.offset_for_time(max(self.clock.wall_ms() - reset, 0), end)
            return end if entry is None else entry.offset
        return partition.log_start_offset if reset == EARLIEST else partition.high_watermark

    def run(self, work: SlicedWork[None]) -> None:
        """Run work of a share partition in slices."""
        self._slices.add(work)

    def run_later(self, run: Callable[[], None]) -> None:
        """Call `run` in a later turn."""
        self._purgatory.run_in_later_turn(run)

    def wake(self, opened: OpenSharePartition) -> None:
        """Retry the fetches that wait for a share partition."""
        self._purgatory.wake(opened)


class OpenSharePartition:
    """A share partition and its log; the `ShareHost` of it, and a key of the purgatory.

    Attributes:
        share: the in-flight records; None while it is opening.
        error: why it could not be opened, until another try gets further.
        is_closed: another one takes its place at the next use.
    """

    def __init__(self, groups: ShareGroups, key: SharePartitionKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.clock = groups.clock
        self.timers = groups.timers
        self.locks = groups.locks
        self.counts = groups.counts_of(key.group)
        self.share: SharePartition | None = None
        self.error: KqueueError | None = None
        self.is_closed = False
        self._leader_epoch = partition.leader_epoch
        self._groups = groups
        self._is_opening = False
        self._retry_at_ms = 0.0

    def open(self) -> None:
        """Begin to open it, unless it is open or opening. Raises: as `ShareGroups.open`."""
        if self.share is not None:
            return
        if not self._is_opening and self.clock.monotonic_ms() >= self._retry_at_ms:
            self._is_opening = True
            self._groups.states.read(self.key, self._leader_epoch, self._read)
        if self.error is not None and not self._is_opening:
            raise self.error

    def _read(self, state: ShareState | KqueueError | None) -> None:
        if isinstance(state, CoordinatorLoadInProgress) or (
            isinstance(state, (NotCoordinator, CoordinatorNotAvailable)) and self._groups.states.remote is not None
        ):
            self.error, self._is_opening = None, False
            self.timers.at(self.clock.monotonic_ms() + LOAD_RETRY_MS, lambda: self._groups.wake(self))
        elif isinstance(state, FencedLeaderEpoch):
            self._opened(NotLeader(str(state)))
        elif isinstance(state, KqueueError):
            self._opened(state)
        elif state is None:
            what = (
                f"group {self.key.group!r} has no state for partition {self.partition.index} of {self.partition.topic}"
            )
            self._opened(NoShareState(f"{what}: it gets one by a ShareGroupHeartbeat of a member that subscribes it"))
        else:
            self.error = None
            self._groups.run(self._begin(state))

    def _begin(self, state: ShareState) -> SlicedWork[None]:
        try:
            start = state.start_offset
            if start == NO_OFFSET:
                start = yield from self._groups.start_offset(self.key, self.partition)
            elif start > self.partition.log_end_offset:
                # the log has lost records that were accepted: no fsync covered them
                events.SHARE_START_MOVED.log(
                    logger,
                    "%r ends at %d, before the start %d of group %r: starting at its end",
                    partition=self.partition,
                    end_offset=self.partition.log_end_offset,
                    start_offset=start,
                    group=self.key.group,
                )
                start, state = self.partition.log_end_offset, state._replace(start_offset=NO_OFFSET, batches=())
            share = SharePartition(self, state, start)
            share.advance_start(self.partition.log_start_offset)
        except KqueueError as error:
            self._opened(error)
            return
        if self.is_closed:
            share.close()
            return
        self.share = share
        self._opened(None)

    def _opened(self, error: KqueueError | None) -> None:
        self._is_opening = False
        self.error = error
        self._retry_at_ms = self.clock.monotonic_ms() + OPEN_RETRY_MS
        self._groups.wake(self)

    def check_topic(self) -> None:
        """Check that this is not the group's dead-letter topic. Raises InvalidTopic."""
        if self.partition.topic == self.config().dead_letter_topic:
            raise InvalidTopic(
                f"group {self.key.group!r} can't read {self.partition.topic}, its own dead-letter topic "
                f"({DEAD_LETTER_TOPIC}): what it rejects there would come back for ever"
            )

    # --- ShareHost

    def config(self) -> ShareGroupConfig:
        """Return the group's present values."""
        return self._groups.config_of(self.key.group)

    def write(self, update: ShareUpdate, dead: Sequence[DeadRange], done: Done) -> None:
        """Persist `update`, after what it gives up is in the group's dead-letter topic."""
        topic = self.config().dead_letter_topic
        if not dead or not topic:
            self._write(update, done)
            return
        try:
            self.check_topic()
        except InvalidTopic as error:
            done(error)
            return

        def copied(error: KqueueError | None) -> None:
            if error is None:
                self.counts.dead_lettered += sum(each.last - each.first + 1 for each in dead)
                self._write(update, done)
            else:
                done(error)

        self._groups.dead_letters.copy(DeadLetterSource(self.key, self.partition), dead, topic, copied)

    def _write(self, update: ShareUpdate, done: Done) -> None:
        def written(error: KqueueError | None) -> None:
            if isinstance(error, (FencedStateEpoch, FencedLeaderEpoch)):
                if not self.is_closed:
                    self._groups.close(self.key)
                error = NotLeader(str(error))  # the member starts again. Source: Kafka's fetchPersisterError
            done(error)

        assert self.share is not None
        self._groups.states.write(self.key, self.share.state_epoch, self._leader_epoch, update, written)

    def released(self) -> None:
        """Retry the fetches that wait for records."""
        self._groups.wake(self)

    def run_later(self, run: Callable[[], None]) -> None:
        """Call `run` in a later turn."""
        self._groups.run_later(run)


def _log_failure(key: SharePartitionKey, error: KqueueError | None) -> None:
    if error is not None:
        events.SHARE_STATE_NOT_DELETED.log(
            logger, "the state of share partition %s stays: %s", key=key.coordinator_key, error=error
        )
