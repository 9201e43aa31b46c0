"""Samples as families of prometheus-client, which writes them as text or as OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kqueue.base.histogram import BOUNDS_S, Histogram
from kqueue.telemetry.metrics import METRICS, Kind
from kqueue.telemetry.samples import Labels, Samples, Value

BUCKETS = (*map(str, BOUNDS_S), "+Inf")
_FAMILIES: Mapping[Kind, Callable[..., Any]] = {Kind.COUNTER: CounterMetricFamily, Kind.GAUGE: GaugeMetricFamily}


class SamplesCollector:
    """A collector of prometheus-client. Thread: those of the endpoint.

    Args: read: returns the samples of now; raises TimeoutError where the broker does not answer.
    """

    def __init__(self, read: Callable[[], Samples]) -> None:
        self._read = read

    def describe(self) -> list[Metric]:
        """Return nothing: registering a collector must not read the broker."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the families of all metrics, each with its values, if it has some."""
        samples = self._read()
        samples.read_disks()
        for metric in METRICS:
            values = samples.values.get(metric.name, {})
            if metric.kind is Kind.HISTOGRAM:
                yield _histogram(HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels), values)
                continue
            family = _FAMILIES[metric.kind](metric.name, metric.meaning, labels=metric.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


def _histogram(family: HistogramMetricFamily, values: Mapping[Labels, Value]) -> Metric:
    for labels, value in values.items():
        assert isinstance(value, Histogram)
        counts = list(accumulate(value.counts))
        family.add_metric(list(labels), list(zip(BUCKETS, counts, strict=True)), value.sum_s)
    return family
