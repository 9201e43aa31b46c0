"""Samples as families of prometheus-client, which writes them as text or as OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import Metric as Family
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from kqueue.base.histogram import BOUNDS_S, Histogram
from kqueue.telemetry.foreign_names import ForeignName
from kqueue.telemetry.metrics import METRICS, Kind
from kqueue.telemetry.pace import Pace
from kqueue.telemetry.samples import Labels, Samples, Value

BUCKETS = (*map(floatToGoString, BOUNDS_S), "+Inf")


class SamplesCollector:
    """A collector of prometheus-client. Thread: those of the endpoint.

    Args:
        read: returns the samples of now; raises TimeoutError where the broker does not answer.
        names: those of another exporter; None: kqueue's own.
    """

    def __init__(self, read: Callable[[], Samples], names: Sequence[ForeignName] | None = None) -> None:
        self._read = read
        self._names = names

    def describe(self) -> list[Family]:
        """Return nothing: registering a collector must not read the broker."""
        return []

    def collect(self) -> Iterator[Family]:
        """Return the families of all metrics, each with its values, if it has some."""
        samples = self._read()
        samples.read_disks()
        pace = Pace()
        if self._names is not None:
            for row in self._names:
                yield _family(row.name, Kind.GAUGE, row.meaning, row.labels, row.values(samples), pace)
            return
        for metric in METRICS:
            values = samples.values.get(metric.name, {})
            yield _family(metric.name, metric.kind, metric.meaning, metric.labels, values, pace)


def _family(name: str, kind: Kind, meaning: str, labels: Labels, values: Mapping[Labels, Value], pace: Pace) -> Family:
    family = Family(name, meaning, kind.value)
    family.samples = _Lines(f"{name}_total" if kind is Kind.COUNTER else name, labels, values, pace)
    return family


class _Lines(list[Sample]):
    """The samples of a family, each made when it is written: together they would hold the
    interpreter, and memory.
    """

    def __init__(self, name: str, labels: Labels, values: Mapping[Labels, Value], pace: Pace) -> None:
        super().__init__()
        self._name = name
        self._labels = labels
        self._values = values
        self._pace = pace

    def __iter__(self) -> Iterator[Sample]:
        for values, value in self._values.items():
            labels = dict(zip(self._labels, values, strict=True))
            if isinstance(value, Histogram):
                yield from _of_histogram(self._name, labels, value)
            else:
                yield Sample(self._name, labels, value)
            self._pace.keep()


def _of_histogram(name: str, labels: dict[str, Any], histogram: Histogram) -> Iterator[Sample]:
    counts = list(accumulate(histogram.counts))
    for bound, count in zip(BUCKETS, counts, strict=True):
        yield Sample(f"{name}_bucket", {**labels, "le": bound}, count)
    yield Sample(f"{name}_count", labels, counts[-1])
    yield Sample(f"{name}_sum", labels, histogram.sum_s)
