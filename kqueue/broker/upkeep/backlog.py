"""Peak shaving: bounds on the unread backlog of topics.

The backlog of a partition is its log end minus the least committed offset of the groups that count,
in offsets and in bytes; that of a topic is the sum. The groups that count are those of
`kqueue.backlog.groups`, else each group that has committed an offset for the partition. Where none
has, or a named group has not, all records since the log start are unread.

A batch is accepted while the backlog is below the bounds, so it exceeds them by less than the
batches of one turn. Beyond, `kqueue.backlog.action` decides: producers are refused, or slowed.

An append costs O(1): it adds to counters. Bytes are exact when a bound decides: a moved offset is
looked up in the offset index only then. Nothing is stored: a start computes all of it again.
"""

from __future__ import annotations

import enum
import heapq
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import TopicConfig
from kqueue.base.errors import KqueueError, PolicyViolation
from kqueue.base.settings import LONG_MAX
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.log.log import Log

logger = logging.getLogger("kqueue.broker")
NO_BOUND = -1
LOOKUPS_MAX = 16
"""Look-ups of positions in one decision; the others follow with the next ones."""
DESCRIBED_LOOKUPS_MAX = 200
LOOKUP_AGAIN_MS = 1000
"""Positions of a topic beyond its bound are looked up again after this time: compaction and
deletions move them.
"""
LOG_INTERVAL_MS = 60_000
OffsetsOfTopic = Callable[[str], Iterator[tuple[str, int, int]]]

HEAP_RATIO = 2
HEAP_SPARE = 16


class LeastOffset:
    """Offsets by group. A change costs O(log n), however many groups there are."""

    __slots__ = ("_heap", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # entries that are not in `_offsets` any more are dropped late

    def get(self, group: str, default: int) -> int:
        """Return the offset of a group."""
        return self._offsets.get(group, default)

    def set(self, group: str, offset: int) -> None:
        """Set the offset of a group."""
        self._offsets[group] = offset
        heapq.heappush(self._heap, (offset, group))
        if len(self._heap) > HEAP_RATIO * len(self._offsets) + HEAP_SPARE:
            self._heap = [(offset, group) for group, offset in self._offsets.items()]
            heapq.heapify(self._heap)

    def remove(self, group: str) -> None:
        """Forget a group, if it is known."""
        self._offsets.pop(group, None)

    def least(self) -> tuple[int, str] | None:
        """Return the least offset and a group that has it; None: there are no groups."""
        heap = self._heap
        while heap and self._offsets.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0] if heap else None


class BacklogState(enum.Enum):
    """The answers that producers of a topic can get."""

    OPEN = "open"
    REFUSING = "refusing"
    SLOWING = "slowing"


class BacklogBound(NamedTuple):
    """The settings of a topic. `messages_max`, `bytes_max`: -1: no bound. `groups`: empty: all."""

    messages_max: int
    bytes_max: int
    slows: bool
    throttle_ms_max: int
    groups: tuple[str, ...]

    @classmethod
    def of(cls, config: TopicConfig) -> BacklogBound | None:
        """Return the bound that a topic's settings ask for; None: none."""
        messages_max, bytes_max = config["kqueue.backlog.messages.max"], config["kqueue.backlog.bytes.max"]
        if messages_max == bytes_max == NO_BOUND:
            return None
        return cls(
            messages_max,
            bytes_max,
            config["kqueue.backlog.action"] == "throttle",
            config["kqueue.backlog.throttle.max.ms"],
            tuple(config["kqueue.backlog.groups"]),
        )


class PartitionBacklogDescription(NamedTuple):
    """The backlog of one partition. `group`: the slowest; None: no group has read it."""

    partition: int
    messages: int
    bytes: int
    group: str | None


class BacklogDescription(NamedTuple):
    """The backlog of a topic at one moment. `group`: the slowest, in the partition with most
    unread messages; None: no group has read it.
    """

    state: BacklogState
    messages: int
    bytes: int
    group: str | None
    bound: BacklogBound
    partitions: list[PartitionBacklogDescription]


class TopicBacklog:
    """The backlog of one topic with a bound.

    `exceeded`: the topic has reached a bound, as far as the counters say: bytes may be less.
    """

    __slots__ = ("_bytes_max", "_clock", "_looked_up_ms", "_messages_max", "_reported_ms", "_stale", "_was_reported",
                 "bound", "bytes", "exceeded", "messages", "name", "partitions")  # fmt: skip

    def __init__(self, topic: Topic, bound: BacklogBound, clock: Clock) -> None:
        self.name = topic.name
        self.bound = bound
        self.messages = self.bytes = 0
        self._messages_max = LONG_MAX if bound.messages_max == NO_BOUND else bound.messages_max
        self._bytes_max = LONG_MAX if bound.bytes_max == NO_BOUND else bound.bytes_max
        self._clock = clock
        self._stale: dict[PartitionBacklog, None] = {}  # their bytes are too high, perhaps
        self._looked_up_ms = self._reported_ms = -float("inf")
        self._was_reported = False
        self.exceeded = False
        self.partitions = [PartitionBacklog(self, partition) for partition in topic.partitions]
        self.add(0, 0)

    def add(self, messages: int, size: int) -> None:
        """Count unread messages and bytes; negative ones were read or deleted."""
        self.messages += messages
        self.bytes += size
        self.exceeded = self.messages >= self._messages_max or self.bytes >= self._bytes_max
        if self._was_reported and not self.exceeded:
            self._was_reported = False
            events.BACKLOG_CAUGHT_UP.log(logger, "topic %s: consumers have caught up, producers go on", topic=self.name)

    def set_stale(self, partition: PartitionBacklog) -> None:
        """Note that the bytes of a partition are to be looked up."""
        self._stale[partition] = None

    @property
    def state(self) -> BacklogState:
        """The answer that producers get now."""
        self._settle()
        if not self.exceeded:
            return BacklogState.OPEN
        return BacklogState.SLOWING if self.bound.slows else BacklogState.REFUSING

    def check(self) -> None:
        """Refuse an append. Raises: PolicyViolation: the backlog has reached a bound."""
        if self.exceeded and self.state is BacklogState.REFUSING:
            self._report("refused")
            raise PolicyViolation(self._refusal())

    def throttle_ms(self) -> int:
        """Return for how long a producer that has just appended is to wait: 0 below the bounds,
        growing to `kqueue.backlog.throttle.max.ms` at twice a bound.
        """
        if not (self.exceeded and self.state is BacklogState.SLOWING):
            return 0
        self._report("slowed")
        excess = max(_excess(self.messages, self._messages_max), _excess(self.bytes, self._bytes_max))
        longest_ms = self.bound.throttle_ms_max
        return max(1, min(longest_ms, round(longest_ms * excess)))

    def describe(self, partitions_max: int | None = None) -> BacklogDescription:
        """Return the present backlog, and that of the partitions with most unread messages; None:
        of all. The bytes of more than `DESCRIBED_LOOKUPS_MAX` partitions may be too high.
        """
        for partition in list(islice(dict.fromkeys([*self._stale, *self.partitions]), DESCRIBED_LOOKUPS_MAX)):
            self._stale.pop(partition, None)
            partition.look_up()
        slowest = self._slowest()
        count = len(self.partitions) if partitions_max is None else partitions_max
        shown = heapq.nlargest(count, self.partitions, key=lambda one: (one.messages, -one.partition.index))
        return BacklogDescription(
            self.state,
            self.messages,
            self.bytes,
            slowest.group,
            self.bound,
            [
                PartitionBacklogDescription(one.partition.index, one.messages, one.bytes, one.group)
                for one in sorted(shown, key=lambda one: one.partition.index)
            ],
        )

    def _settle(self) -> None:
        """Look up stale positions, as far as they decide."""
        if not self.exceeded or self.messages >= self._messages_max:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_up_ms >= LOOKUP_AGAIN_MS:
            self._looked_up_ms = now_ms
            self._stale.update(dict.fromkeys(one for one in self.partitions if one.bytes))
        for partition in list(islice(self._stale, LOOKUPS_MAX)):
            del self._stale[partition]
            partition.look_up()
            if not self.exceeded:
                break

    def _slowest(self) -> PartitionBacklog:
        return max(self.partitions, key=lambda one: one.messages)

    def _amounts(self) -> str:
        bounds = []
        if self.messages >= self._messages_max:
            count = f"{self.messages} message{'s' * (self.messages != 1)}"
            bounds.append(f"{count} (kqueue.backlog.messages.max={self._messages_max})")
        if self.bytes >= self._bytes_max:
            bounds.append(f"{self.bytes} bytes (kqueue.backlog.bytes.max={self._bytes_max})")
        return " and ".join(bounds)

    def _lagging(self) -> str:
        slowest = self._slowest()
        where = f"{slowest.messages} of them in partition {slowest.partition.index}"
        if slowest.group is None:
            return f"no group has committed an offset for partition {slowest.partition.index} yet"
        return f"group {slowest.group!r} is the slowest, with {where}"

    def _refusal(self) -> str:
        return (
            f"topic {self.name} takes no more records until its consumers have caught up; unread: {self._amounts()}; "
            f"{self._lagging()}. Send again later, start more consumers, or raise the bound"
        )

    def _report(self, what: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._was_reported and now_ms - self._reported_ms >= LOG_INTERVAL_MS:
            self._was_reported, self._reported_ms = True, now_ms
            events.BACKLOG_TOO_LARGE.log(
                logger,
                "topic %s: producers are %s; unread: %s; %s",
                topic=self.name,
                consequence=what,
                unread=self._amounts(),
                lagging=self._lagging(),
            )


def _excess(value: int, maximum: int) -> float:
    return (value - maximum) / maximum if maximum else 1.0


class PartitionBacklog:
    """The backlog of one partition, kept up to date by appends, commits and deletions.

    Attributes: messages: unread offsets. bytes: at least the unread bytes. group: the slowest;
        None: no group counts yet.
    """

    __slots__ = ("_committed", "_end", "_floor", "bytes", "group", "messages", "partition", "topic")

    def __init__(self, topic: TopicBacklog, partition: Partition) -> None:
        self.topic = topic
        self.partition = partition
        self.messages = self.bytes = 0
        self.group: str | None = None
        self._committed = LeastOffset()
        self._floor = self._end = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the topic has reached a bound, so that `check` is to be called."""
        return self.topic.exceeded

    def check(self) -> None:
        """Refuse an append. Raises: PolicyViolation: see `TopicBacklog.check`."""
        self.topic.check()

    def throttle_ms(self) -> int:
        """See `TopicBacklog.throttle_ms`."""
        return self.topic.throttle_ms()

    def opened(self, log: Log) -> None:
        """Take over the offsets of a log that was just opened."""
        self._end = log.end_offset
        self._recompute()
        self.look_up()

    def appended(self, end_offset: int, size: int) -> None:
        """Count an append; it costs a few hundred ns."""
        self._end = end_offset
        messages = max(end_offset - self._floor, 0)
        size = size if messages else 0
        added = messages - self.messages
        self.messages = messages
        self.bytes += size
        self.topic.add(added, size)

    def start_moved(self) -> None:
        """Follow the log start, below which nothing is unread."""
        self._recompute()

    def commit(self, group: str, offset: int | None) -> None:
        """Follow a group's committed offset; None: it was deleted, or has expired.

        Reads no file: one request may commit for many partitions.
        """
        named = self.topic.bound.groups
        if named and group not in named:
            return
        if offset is None:
            self._committed.remove(group)
        else:
            self._committed.set(group, offset)
            if group != self.group and self.group is not None and offset >= self._floor:
                return
        self._recompute()

    def look_up(self) -> None:
        """Compute the bytes from the offset index; they stay as they are if that fails."""
        size = 0
        if self.messages:
            try:
                size = _unread_bytes(self.partition.log, self._floor)
            except (KqueueError, FileNotFoundError):
                return  # the log is offline or damaged: the counter is an upper bound
        added, self.bytes = size - self.bytes, size
        self.topic.add(0, added)

    def _recompute(self) -> None:
        partition = self.partition
        start = partition.log.start_offset if partition.is_open else 0
        named = self.topic.bound.groups
        if named:
            least = min((self._committed.get(group, start), number) for number, group in enumerate(named))
            offset, self.group = least[0], named[least[1]]
        else:
            offset, self.group = self._committed.least() or (start, None)
        former, self._floor = self._floor, max(offset, start)
        messages = max(self._end - self._floor, 0)
        added, self.messages = messages - self.messages, messages
        self.topic.add(added, 0)
        if self._floor < former and partition.is_open:
            self._set_upper_bound(partition.log)
        self.topic.set_stale(self)

    def _set_upper_bound(self, log: Log) -> None:
        """Count all bytes of the segments with unread offsets: `bytes` must not be too low."""
        more = log.segments.size_from(self._floor) - self.bytes if self.messages else 0
        if more > 0:
            self.bytes += more
            self.topic.add(0, more)


def _unread_bytes(log: Log, floor: int) -> int:
    """Return the bytes of the batches from the one that holds `floor` on, without what only the
    remote tier has.

    Raises: KqueueError: the index or the batch can't be read.
    """
    if floor >= log.end_offset:
        return 0
    first = log.read(max(floor, log.local_start_offset), 1, end_offset=log.end_offset)
    return log.segments.size_from(first.segment_base) - first.position


class Backlogs:
    """The backlogs of all topics with a bound. Belongs to the owner thread."""

    def __init__(
        self,
        timers: Timers,
        clock: Clock,
        offsets_of_topic: OffsetsOfTopic,
        may_have_batches: Callable[[str, int], bool],
    ) -> None:
        """`offsets_of_topic(topic)`: yields group, partition, offset of all committed offsets."""
        self._clock = clock
        self._offsets_of_topic = offsets_of_topic
        self._may_have_batches = may_have_batches
        self._topics: dict[str, TopicBacklog] = {}
        self._slices = SliceQueue(timers, clock)

    def of(self, topic: str) -> TopicBacklog | None:
        """Return the backlog of a topic; None: it has no bound."""
        return self._topics.get(topic)

    def configure(self, topic: Topic) -> None:
        """Follow the settings and the partitions of a topic, which may be new."""
        bound = None if topic.is_internal else BacklogBound.of(topic.config)
        if bound is None:
            self.forget(topic)
            return
        backlog = self._topics[topic.name] = TopicBacklog(topic, bound, self._clock)
        for group, index, offset in self._offsets_of_topic(topic.name):
            if index < len(backlog.partitions):
                backlog.partitions[index].commit(group, offset)
        for one in backlog.partitions:
            one.partition.backlog = one
            if one.partition.is_open:
                one.opened(one.partition.log)
        self._slices.add(self._open_logs(backlog))

    def forget(self, topic: Topic) -> None:
        """Drop the backlog of a topic that was deleted, or has no bound any more."""
        if self._topics.pop(topic.name, None) is not None:
            for partition in topic.partitions:
                partition.backlog = None

    def committed(self, group: str, topic: str, partition: int, offset: int | None) -> None:
        """Follow a committed offset of any group; None: it is gone."""
        backlog = self._topics.get(topic)
        if backlog is not None and partition < len(backlog.partitions):
            backlog.partitions[partition].commit(group, offset)

    def _open_logs(self, backlog: TopicBacklog) -> SlicedWork[None]:
        """Open the logs whose ends are unknown: opening counts their backlog (`opened`)."""
        for one in backlog.partitions:
            partition = one.partition
            if self._topics.get(backlog.name) is not backlog:
                return  # deleted, or configured again
            try:
                if not partition.is_open and self._may_have_batches(partition.topic, partition.index):
                    partition.log  # noqa: B018
            except KqueueError as error:
                events.BACKLOG_UNKNOWN.log(
                    logger, "%r can't be opened, its backlog counts as empty: %s", partition=partition, error=error
                )
            yield None
