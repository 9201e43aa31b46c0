"""`ClusterHistory`: the series of a cluster, its latest state, and since when groups are behind.

For 1,000 topics, 200 groups with 1,000 partitions and one broker with metrics it takes 9 MB at
intervals of any length, see `series`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.admin.partition_conditions import Condition
from kqueue.admin.rates import GroupTrend, TopicRate
from kqueue.admin.rates import History as RateHistory
from kqueue.admin.snapshot import UP, Snapshot
from kqueue.client import GroupListing, TopicPartition
from kqueue.console.history.behind import BehindSince, GroupPosition, Since
from kqueue.console.history.broker_metrics import VALUES, BrokerLoad
from kqueue.console.history.series import Point, Resolution, SeriesFamily, highest

TOPICS_MAX = 1_000
GROUPS_MAX = 500
GROUP_PARTITIONS_MAX = 1_000
BROKERS_MAX = 50
TREND_SAMPLES = 7
"""Of the trend of lags; with intervals of 10 s those of a minute."""


class GroupState(NamedTuple):
    """A group as of the latest sample.

    `trend`: its lag and how that changes. `since`: since when it is behind; None: it is not.
    """

    listing: GroupListing
    trend: GroupTrend
    since: Since | None


@dataclass(frozen=True, slots=True)
class LatestSample:
    """What the latest sample found.

    Attributes:
        time_ms: since 1970; None: there was none yet.
        topics: rates of each topic, groups: by name; both of the last sample that succeeded.
        counts: numbers of partitions in each condition.
        problems: what could not be read, as sentences.
    """

    time_ms: int | None = None
    topics: Mapping[str, TopicRate] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LatestLoad:
    """What the latest reading of a broker's metrics found.

    `load`: None: nothing yet, or it could not be read; then `problem` says why.
    """

    url: str
    load: BrokerLoad | None = None
    problem: str = ""


UNKNOWN_TREND = GroupTrend(None, None, None, None)
PARTITIONS_IN_TROUBLE = (Condition.UNDER_REPLICATED, Condition.UNAVAILABLE)


class ClusterHistory:
    """Records samples of a cluster, and returns series of them.

    Args:
        interval_ms: between samples.
    Thread: any.
    """

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self._lock = threading.Lock()
        self._rates = RateHistory(samples_max=TREND_SAMPLES, window_s=TREND_SAMPLES * interval_ms / 1000)
        self._behind = BehindSince(step_ms_min=interval_ms // 2)
        self._latest = LatestSample()
        self._records = SeriesFamily[str](interval_ms, TOPICS_MAX)
        self._bytes = SeriesFamily[str](interval_ms, TOPICS_MAX)
        self._sizes = SeriesFamily[str](interval_ms, TOPICS_MAX, highest)
        self._lags = SeriesFamily[str](interval_ms, GROUPS_MAX, highest)
        self._partition_lags = SeriesFamily[tuple[str, TopicPartition]](interval_ms, GROUP_PARTITIONS_MAX, highest)
        self._cluster = SeriesFamily[str](interval_ms, len(CLUSTER_VALUES), highest)
        self._metrics = SeriesFamily[tuple[str, str]](interval_ms, BROKERS_MAX * len(VALUES), highest)
        self._loads: dict[str, LatestLoad] = {}

    # --- what the sampler records

    def record(self, now_ms: int, snapshot: Snapshot) -> None:
        """Record a sample. `now_ms`: since 1970."""
        sample = snapshot.sample
        unread = snapshot.groups.keys() - sample.groups.keys()
        positions = {
            name: {
                partition: GroupPosition(offset, _lag(sample.ends.get(partition), offset))
                for partition, offset in progress.offsets.items()
            }
            for name, progress in sample.groups.items()
        }
        with self._lock:
            self._rates.add(sample)
            self._behind.record(now_ms, positions, sample.ends, unread)
            topics = self._rates.topics()
            trends = self._rates.groups()
            self._records.record(now_ms, {name: rate.records_per_s for name, rate in topics.items()})
            self._bytes.record(now_ms, {name: rate.bytes_per_s for name, rate in topics.items()})
            self._sizes.record(now_ms, {name: size.leaders for name, size in snapshot.sizes.items()})
            lags = {name: progress.lag for name, progress in sample.groups.items()}
            self._lags.record(now_ms, lags)
            self._partition_lags.record(
                now_ms,
                {
                    (name, partition): position.lag
                    for name, by_partition in positions.items()
                    for partition, position in by_partition.items()
                },
            )
            total = self._rates.total()
            self._cluster.record(
                now_ms,
                {
                    "records": total.records_per_s,
                    "bytes": total.bytes_per_s,
                    "lag": sum(lag for lag in lags.values() if lag is not None),
                    "brokers": sum(broker.state == UP for broker in snapshot.brokers),
                    **{each.value: snapshot.counts.get(_count_name(each)) for each in PARTITIONS_IN_TROUBLE},
                },
            )
            groups = {
                name: GroupState(listing, trends.get(name, UNKNOWN_TREND), self._behind.group(name))
                for name, listing in snapshot.groups.items()
            }
            self._latest = LatestSample(now_ms, topics, groups, snapshot.counts, snapshot.problems)

    def record_failure(self, now_ms: int, problem: str) -> None:
        """Record that a sample failed: all series have a gap there. `problem`: why, a sentence."""
        with self._lock:
            for family in (self._records, self._bytes, self._sizes, self._lags, self._cluster):
                family.record(now_ms, {})
            self._partition_lags.record(now_ms, {})
            latest = self._latest
            self._latest = LatestSample(latest.time_ms, latest.topics, latest.groups, latest.counts, (problem,))

    def record_metrics(self, now_ms: int, loads: Collection[LatestLoad]) -> None:
        """Record the metrics of all brokers that are asked for them."""
        with self._lock:
            self._loads = {load.url: load for load in loads}
            self._metrics.record(
                now_ms,
                {
                    (load.url, name): value
                    for load in loads
                    if load.load is not None
                    for name, value in load.load.values.items()
                },
            )

    # --- what pages show

    @property
    def resolutions(self) -> tuple[Resolution, ...]:
        """The resolutions of all series, the finest first."""
        return self._cluster.resolutions

    @property
    def latest(self) -> LatestSample:
        """What the latest sample found."""
        with self._lock:
            return self._latest

    @property
    def loads(self) -> list[LatestLoad]:
        """The latest metrics of each broker that is asked for them."""
        with self._lock:
            return list(self._loads.values())

    def behind_since(self, group: str, partition: TopicPartition | None = None) -> Since | None:
        """Return since when a group is behind, in a partition or in any; None: it is not."""
        with self._lock:
            return self._behind.group(group) if partition is None else self._behind.partition(group, partition)

    def group_lags(self, group: str, resolution: int = 0) -> list[Point]:
        """Return the lag of a group over time; empty: it has no history."""
        with self._lock:
            return self._lags.points(group, resolution)

    def partition_lags(self, group: str, partition: TopicPartition, resolution: int = 0) -> list[Point]:
        """Return the lag of a group in a partition over time; empty: it has no history."""
        with self._lock:
            return self._partition_lags.points((group, TopicPartition(*partition)), resolution)

    def topic_records(self, topic: str, resolution: int = 0) -> list[Point]:
        """Return the records per second of a topic over time; empty: it has no history."""
        with self._lock:
            return self._records.points(topic, resolution)

    def topic_bytes(self, topic: str, resolution: int = 0) -> list[Point]:
        """Return the bytes per second of a topic over time; empty: it has no history."""
        with self._lock:
            return self._bytes.points(topic, resolution)

    def topic_sizes(self, topic: str, resolution: int = 0) -> list[Point]:
        """Return the bytes of a topic's logs over time, of one replica of each partition."""
        with self._lock:
            return self._sizes.points(topic, resolution)

    def cluster(self, name: str, resolution: int = 0) -> list[Point]:
        """Return a value of the cluster over time. `name`: one of `CLUSTER_VALUES`."""
        with self._lock:
            return self._cluster.points(name, resolution)

    def metrics(self, url: str, name: str, resolution: int = 0) -> list[Point]:
        """Return a value of a broker's metrics over time. `name`: of `broker_metrics.VALUES`."""
        with self._lock:
            return self._metrics.points((url, name), resolution)

    def busiest_topics(self) -> list[str]:
        """Return the topics that have a history of records, the busiest first."""
        with self._lock:
            return self._records.keys()

    def busiest_groups(self) -> list[str]:
        """Return the groups that have a history of lag, those with the most first."""
        with self._lock:
            return self._lags.keys()


CLUSTER_VALUES = ("records", "bytes", "lag", "brokers", *(each.value for each in PARTITIONS_IN_TROUBLE))


def _lag(end: int | None, offset: int) -> int | None:
    return None if end is None else max(0, end - offset)


def _count_name(condition: Condition) -> str:
    return condition.value.replace("-", "_")
