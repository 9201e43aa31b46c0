"""Rates of topics, and lags of groups with their trend, from samples of a cluster.

    history = History()
    history.add(Sample(0.0, ends={partition: 100}))
    history.add(Sample(2.0, ends={partition: 300}))
    history.topics()["orders"].records_per_s  # 100.0

Nothing here reads a clock or a broker: a sample has its time. What is kept is bounded: the last
reading of each partition, and 8 bytes for each name and sample of the last `samples_max`.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple, TypeVar

from kqueue.admin.group_lags import GroupProgress
from kqueue.admin.log_dirs import LeaderSize
from kqueue.client import TopicPartition

SAMPLES_MAX = 150
WINDOW_S = 60.0
MISSING = math.nan
TOTAL = "total"
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of a cluster at one time.

    A partition or group that could not be read is left out. It is not forgotten: its next reading
    is compared with its last one.

    Attributes:
        time_s: of a monotonic clock.
        ends: log ends.
        sizes: of each partition's leader, in bytes.
        groups: by name.
    """

    time_s: float
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, LeaderSize] = field(default_factory=dict)
    groups: Mapping[str, GroupProgress] = field(default_factory=dict)


class TopicRate(NamedTuple):
    """What is written to a topic, or to all. None: unknown, as after the first sample.

    `records_per_s`: offsets between the two latest samples; markers of transactions count too.
    `bytes_per_s`: of the last growth of its logs that no retention or compaction hid.
    """

    records_per_s: float | None
    bytes_per_s: float | None


class GroupTrend(NamedTuple):
    """How far behind a group is, and how that changes. None: unknown.

    Attributes:
        lag: records that it has still to read.
        consumed_per_s: records between the two latest samples, by its committed offsets.
        growth_per_s: records by which its lag grows, below 0: shrinks; the line through the lags of
            the last minute, since offsets are committed in steps.
        caught_up_s: seconds until its lag is 0 at that trend; None too: never.
    """

    lag: int | None
    consumed_per_s: float | None
    growth_per_s: float | None
    caught_up_s: float | None


class History:
    """The latest samples of a cluster.

    Args:
        samples_max: how many are kept for series.
        window_s: what the trend of a lag is computed from.

    Thread: one at a time.
    """

    def __init__(self, *, samples_max: int = SAMPLES_MAX, window_s: float = WINDOW_S) -> None:
        if samples_max < 2:
            raise ValueError(f"samples_max={samples_max}: a rate needs 2 samples or more")
        self._times: deque[float] = deque(maxlen=samples_max)
        self._window_s = window_s
        self._ends = _Readings()
        self._sizes = _Readings()
        self._offsets = _Readings()
        self._records, self._bytes, self._lags, self._consumed, self._totals = (_Table(samples_max) for _ in range(5))

    def add(self, sample: Sample) -> None:
        """Add what was read. Raises: ValueError: it is not newer than the latest sample."""
        if self._times and sample.time_s <= self._times[-1]:
            raise ValueError(f"a sample of {sample.time_s} s is not newer than the latest, of {self._times[-1]} s")
        self._times.append(sample.time_s)
        oldest_s = self._times[0]
        records = _topic_sums(self._ends.rates(sample.time_s, oldest_s, sample.ends))
        self._records.add(records)
        self._totals.add({TOTAL: sum(records.values())} if records else {})
        # a size of another broker is no later size of this one: segments differ between replicas
        sizes = {(partition, size.leader): size.bytes for partition, size in sample.sizes.items()}
        by_replica = self._sizes.rates(sample.time_s, oldest_s, sizes)
        self._bytes.add(_topic_sums({key[0]: rate for key, rate in by_replica.items()}, all_known=True))
        self._lags.add({name: float(group.lag) for name, group in sample.groups.items() if group.lag is not None})
        offsets = {
            (name, partition): offset
            for name, group in sample.groups.items()
            for partition, offset in group.offsets.items()
        }
        consumed: dict[str, float] = defaultdict(float)
        for (name, _), rate in self._offsets.rates(sample.time_s, oldest_s, offsets).items():
            if rate is not None:
                consumed[name] += rate
        self._consumed.add(consumed)

    # --- now

    def topics(self) -> dict[str, TopicRate]:
        """Return the rates of each topic with a known one."""
        names = self._records.names() | self._bytes.names()
        # sizes may be read less often than log ends, and a hidden growth leaves a gap
        count = self._recent_count()
        return {name: TopicRate(self._records.latest(name), self._bytes.newest(name, count)) for name in sorted(names)}

    def total(self) -> TopicRate:
        """Return the rates of all topics together."""
        rates = self.topics().values()
        return TopicRate(
            _sum(rate.records_per_s for rate in rates),
            _sum(rate.bytes_per_s for rate in rates),
        )

    def groups(self) -> dict[str, GroupTrend]:
        """Return the trend of each group with a known lag or consumption."""
        times_s = self.times_s[len(self._times) - self._recent_count() :]
        return {name: self._trend(name, times_s) for name in sorted(self._lags.names() | self._consumed.names())}

    # --- series, for charts

    @property
    def times_s(self) -> list[float]:
        """The times of the samples, oldest first: those of each series."""
        return list(self._times)

    def topic_records(self, name: str) -> list[float | None]:
        """Return the records per second of a topic at each of `times_s`; None: unknown."""
        return self._records.series(name, len(self._times))

    def topic_bytes(self, name: str) -> list[float | None]:
        """Return the bytes per second of a topic at each of `times_s`; None: unknown, or hidden."""
        return self._bytes.series(name, len(self._times))

    def total_records(self) -> list[float | None]:
        """Return the records per second of all topics at each of `times_s`."""
        return self._totals.series(TOTAL, len(self._times))

    def group_lags(self, name: str) -> list[float | None]:
        """Return the lag of a group at each of `times_s`; None: unknown."""
        return self._lags.series(name, len(self._times))

    def group_consumption(self, name: str) -> list[float | None]:
        """Return the records per second that a group committed, at each of `times_s`."""
        return self._consumed.series(name, len(self._times))

    # ---

    def _recent_count(self) -> int:
        """Return how many of the latest samples are within the window."""
        from_s = self._times[-1] - self._window_s if self._times else 0.0
        return sum(1 for _ in takewhile(lambda time_s: time_s >= from_s, reversed(self._times)))

    def _trend(self, name: str, times_s: list[float]) -> GroupTrend:
        """Return the trend of a group. `times_s`: those of the samples within the window."""
        lag = self._lags.latest(name)
        growth_per_s = None
        if lag is not None:
            values = self._lags.recent(name, len(times_s))
            known = [(time_s, value) for time_s, value in zip(times_s, values, strict=True) if not math.isnan(value)]
            growth_per_s = _slope(known)
        caught_up_s = None
        if lag == 0:
            caught_up_s = 0.0
        elif lag is not None and growth_per_s is not None and growth_per_s < 0:
            caught_up_s = lag / -growth_per_s
        return GroupTrend(None if lag is None else int(lag), self._consumed.latest(name), growth_per_s, caught_up_s)


class _Readings:
    """The last reading of each counter, and its growth per second since then."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[float, int]] = {}

    def rates(self, time_s: float, oldest_s: float, counts: Mapping[K, int]) -> dict[K, float | None]:
        """Return the growth of each counter that was read before; None: it went back, so that its
        growth is unknown: a topic was created again, a log was cut, an offset was reset.
        """
        rates: dict[K, float | None] = {}
        for key, count in counts.items():
            last = self._last.get(key)
            if last is not None:
                rates[key] = (count - last[1]) / (time_s - last[0]) if count >= last[1] else None
            self._last[key] = (time_s, count)
        if len(self._last) > len(counts):
            self._last = {key: last for key, last in self._last.items() if last[0] >= oldest_s}
        return rates


class _Table:
    """A value by name for each of the latest samples, `MISSING` where there is none.

    A name without any value is dropped, so what names cost is bounded by what the cluster has.
    """

    def __init__(self, samples_max: int) -> None:
        self._samples_max = samples_max
        self._rows: dict[str, array[float]] = {}
        self._length = 0

    def add(self, values: Mapping[str, float]) -> None:
        for name in values.keys() - self._rows.keys():
            self._rows[name] = array("d", [MISSING]) * self._length
        self._length = min(self._length + 1, self._samples_max)
        for name in list(self._rows):
            row = self._rows[name]
            row.append(values.get(name, MISSING))
            if len(row) > self._samples_max:
                del row[0]
            if name not in values and all(map(math.isnan, row)):
                del self._rows[name]

    def names(self) -> set[str]:
        return set(self._rows)

    def latest(self, name: str) -> float | None:
        """Return the value of the latest sample."""
        row = self._rows.get(name)
        return None if row is None else _known(row[-1])

    def recent(self, name: str, count: int) -> array[float]:
        """Return the values of the latest samples of a known name."""
        row = self._rows[name]
        return row[len(row) - count :]

    def newest(self, name: str, count: int) -> float | None:
        """Return the newest value of the latest samples; None: they have none."""
        row = self._rows.get(name, ())
        return next((value for value in islice(reversed(row), count) if not math.isnan(value)), None)

    def series(self, name: str, length: int) -> list[float | None]:
        row = self._rows.get(name)
        return [None] * length if row is None else [_known(value) for value in row]


def _topic_sums(rates: Mapping[TopicPartition, float | None], *, all_known: bool = False) -> dict[str, float]:
    """Return the sum of each topic's known rates; `all_known`: only where all of them are known."""
    sums: dict[str, float] = defaultdict(float)
    unknown = set()
    for partition, rate in rates.items():
        if rate is not None:
            sums[partition.topic] += rate
        elif all_known:
            unknown.add(partition.topic)
    return {name: value for name, value in sums.items() if name not in unknown}


def _slope(points: list[tuple[float, float]]) -> float | None:
    """Return the slope of the line of least squares; None: of fewer than two points."""
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
