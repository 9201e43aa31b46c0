"""Reads the counters of a broker: one value per metric and labels, at one moment.

It runs on the owner thread in slices, since a broker may have 10,000 partitions: clients are served
in between. Nothing is opened for it: a log that was not used since the start has no sizes and
offsets here.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kqueue.api.request_meter import Histogram, RequestMeter
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.version import __version__
from kqueue.broker.broker import Broker
from kqueue.broker.replicas.partition import Partition
from kqueue.log.folders.log_dirs import LogDirListing
from kqueue.wire.error_codes import ErrorCode

OTHER = "other"
"""The label of all topics, or groups, beyond the bound."""
Labels = tuple[str, ...]
Value = float | Histogram
T = TypeVar("T")
logger = logging.getLogger("kqueue.telemetry")


class Session(Protocol):
    """A connection. `listener`: the name of the listener that accepted it."""

    listener: str


class Connections(Protocol):
    """All connections of a server. `waiting_requests`: whose response is not complete."""

    waiting_requests: int

    @property
    def sessions(self) -> Iterable[Session]: ...


class Sources(NamedTuple):
    """What metrics and health are read from.

    `jobs`: returns how many jobs run or wait. `names_max`: how many topics, and how many groups,
    have values of their own.
    """

    broker: Broker
    meter: RequestMeter
    connections: Connections
    jobs: Callable[[], int]
    is_stopping: Callable[[], bool]
    loop_delay: Histogram
    names_max: int


class Samples:
    """The values of one moment. `folders`: the data folders, whose disks are asked in another
    thread, since a disk may hang.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, Value]] = defaultdict(dict)
        self.folders: list[LogDirListing] = []

    def add(self, metric: str, value: Value, *labels: str) -> None:
        self.values[metric][labels] = value

    def count(self, metric: str, value: float, *labels: str) -> None:
        """Add to what the labels have already, as those named `OTHER` do."""
        values = self.values[metric]
        before = values.get(labels, 0)
        assert not isinstance(before, Histogram)
        values[labels] = before + value


class SampleReader:
    """Reads the samples of one broker. Thread: the owner thread."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._told: set[str] = set()  # of which kinds of names there were too many

    def read(self) -> SlicedWork[Samples]:
        """Return all samples; yields after each partition, group and so on."""
        samples = Samples()
        self._read_server(samples)
        self._read_requests(samples)
        yield None
        yield from self._read_topics(samples)
        yield from self._read_groups(samples)
        yield from self._read_transactions(samples)
        return samples

    def _read_server(self, samples: Samples) -> None:
        sources, broker = self._sources, self._sources.broker
        node_id, cluster_id = broker.identity.node_id, broker.logs.cluster_id
        samples.add("kqueue_broker_info", 1, __version__, str(node_id), cluster_id)
        samples.add("kqueue_ready", int(broker.ready.done))
        samples.add("kqueue_logs_to_recover", len(broker.logs.unrecovered()))
        samples.add("kqueue_loop_delay_seconds", sources.loop_delay)
        samples.add("kqueue_jobs", sources.jobs())
        samples.add("kqueue_waiting_requests", sources.connections.waiting_requests)
        for listener, count in Counter(session.listener for session in sources.connections.sessions).items():
            samples.add("kqueue_connections", count, listener)
        samples.add("kqueue_offline_folders", len(broker.logs.offline))
        samples.folders, _ = broker.logs.list_log_dirs(())

    def _read_requests(self, samples: Samples) -> None:
        for api, counts in self._sources.meter.apis.items():
            if not counts.requests:
                continue  # a route was made, and its request was refused before its handler
            samples.add("kqueue_requests", counts.requests, api)
            samples.add("kqueue_request_handling_seconds", counts.handling, api)
            if any(counts.waiting.counts):  # most APIs never wait
                samples.add("kqueue_request_waiting_seconds", counts.waiting, api)
            for code, count in counts.errors.items():
                samples.add("kqueue_request_errors", count, api, ErrorCode(code).name)

    def _read_topics(self, samples: Samples) -> SlicedWork[None]:
        topics = self._sources.broker.topics
        totals = Counter(dict.fromkeys(("partitions", "leaders", "offline", "under_replicated", "under_min_isr"), 0))
        for label, topic in self._named("topics", sorted(topics, key=lambda topic: topic.name)):
            for partition in topic.partitions:
                _count_replica(partition, totals)
                samples.count("kqueue_topic_appended_bytes", partition.appended_bytes, label or OTHER)
                if partition.is_open and not partition.deleted:
                    _read_log(samples, label or OTHER, partition, alone=label is not None)
                yield None
        samples.add("kqueue_topics", len(topics))
        for name, count in totals.items():
            samples.add(f"kqueue_{name}{'' if name in ('partitions', 'leaders') else '_partitions'}", count)
        self._read_sent_bytes(samples)

    def _read_sent_bytes(self, samples: Samples) -> None:
        broker, sent_bytes = self._sources.broker, self._sources.meter.sent_bytes
        for key, size in list(sent_bytes.items()):
            topic = broker.topics.find_by_id(key) if isinstance(key, bytes) else broker.topics.find(key)
            if topic is None:
                del sent_bytes[key]  # deleted
                continue
            is_named = (topic.name,) in samples.values["kqueue_topic_appended_bytes"]
            samples.count("kqueue_topic_sent_bytes", size, topic.name if is_named else OTHER)

    def _read_groups(self, samples: Samples) -> SlicedWork[None]:
        broker = self._sources.broker
        groups = broker.coordinators.groups
        try:
            listed = groups.groups()
        except KqueueError:  # they are being loaded
            return
        for (type_, state), count in Counter((group.type.value, group.state) for group in listed).items():
            samples.add("kqueue_groups", count, type_, state)
        for label, name in self._named("groups", sorted(group.group_id for group in listed)):
            if label is None:
                break
            try:
                offsets = groups.offsets(name)
            except KqueueError:  # it is gone, or of a type without committed offsets
                continue
            for topic, partitions in offsets.items():
                for index, committed in partitions.items():
                    samples.add("kqueue_group_committed_offset", committed.offset, label, topic, str(index))
                    end = _end_offset(broker, topic, index)
                    if end is not None:
                        samples.add("kqueue_group_lag", max(end - committed.offset, 0), label, topic, str(index))
                    yield None

    def _read_transactions(self, samples: Samples) -> SlicedWork[None]:
        states: Counter[str] = Counter()
        try:
            for metadata in self._sources.broker.coordinators.transactions.all():
                states[metadata.state.name] += 1
                yield None
        except KqueueError:  # they are being loaded
            return
        for state, count in states.items():
            samples.add("kqueue_transactions", count, state)

    def _named(self, what: str, things: Sequence[T]) -> Iterator[tuple[str | None, T]]:
        """Return each thing with its label; None: those beyond the bound share one."""
        names_max = self._sources.names_max
        if len(things) > names_max and what not in self._told:
            self._told.add(what)
            logger.warning(
                "metrics name %d of %d %s, the others are %r (kqueue.metrics.names.max)",
                names_max, len(things), what, OTHER,
            )  # fmt: skip
        for number, thing in enumerate(things):
            yield (None if number >= names_max else str(getattr(thing, "name", thing))), thing


def _count_replica(partition: Partition, totals: Counter[str]) -> None:
    if not partition.has_replica:
        return
    totals["partitions"] += 1
    if partition.is_offline or partition.leader < 0:
        totals["offline"] += 1
    if partition.is_leader:
        totals["leaders"] += 1
        totals["under_replicated"] += len(partition.isr) < len(partition.replicas)
        try:
            partition.check_in_sync()
        except KqueueError:
            totals["under_min_isr"] += 1


def _read_log(samples: Samples, label: str, partition: Partition, *, alone: bool) -> None:
    """Read an open log. Args: alone: its topic has values of its own."""
    log, index = partition.log, str(partition.index)
    samples.count("kqueue_topic_size_bytes", log.segments.size, label)
    if not alone:
        return
    samples.add("kqueue_partition_start_offset", log.start_offset, label, index)
    samples.add("kqueue_partition_end_offset", log.end_offset, label, index)
    samples.add("kqueue_partition_size_bytes", log.segments.size, label, index)
    samples.add("kqueue_partition_segments", len(log.segments), label, index)
    if partition.is_leader:
        samples.add("kqueue_partition_in_sync_replicas", len(partition.isr), label, index)


def _end_offset(broker: Broker, topic: str, index: int) -> int | None:
    """Return the high watermark of a partition; None: it is not here, or not open."""
    partitions = () if (here := broker.topics.find(topic)) is None else here.partitions
    return partitions[index].high_watermark if index < len(partitions) and partitions[index].is_open else None
