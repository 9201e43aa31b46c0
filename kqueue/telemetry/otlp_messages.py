"""Metrics as messages of OpenTelemetry's protocol: those of the broker, and those that clients have
pushed to it (KIP-714).

Source: opentelemetry-proto, collector/metrics/v1 and metrics/v1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from kqueue.base.histogram import BOUNDS_S, Histogram
from kqueue.base.version import __version__
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush
from kqueue.telemetry.metrics import METRICS, Kind, Metric
from kqueue.telemetry.pace import Pace
from kqueue.telemetry.samples import Labels, Samples, Value

POINTS_MAX = 2000
"""Values in one message: collectors bound its size, and encoding it holds the interpreter."""
INSTANCE = "client_instance_id"
IDLE_MS = 3_600_000
"""A client that has pushed nothing for so long leaves its place to another one."""


def messages_of(samples: Samples, resource: Mapping[str, str], start_ns: int, now_ns: int) -> Iterator[bytes]:
    """Return the samples as requests of at most `POINTS_MAX` values.

    Args:
        resource: attributes of the broker.
        start_ns, now_ns: since 1970: of the start of the counters, and of the samples.
    """
    pace = Pace()
    message = _Message(resource, start_ns, now_ns)
    for metric in METRICS:
        for labels, value in samples.values.get(metric.name, {}).items():
            message.add(metric, labels, value)
            pace.keep()
            if message.points >= POINTS_MAX:
                yield message.encode()
                message = _Message(resource, start_ns, now_ns)
    if message.points:
        yield message.encode()


class _Message:
    """One request under construction. `points`: its values so far."""

    def __init__(self, resource: Mapping[str, str], start_ns: int, now_ns: int) -> None:
        self._request = ExportMetricsServiceRequest()
        of_resource = self._request.resource_metrics.add()
        _set_attributes(of_resource.resource, resource)
        self._scope = of_resource.scope_metrics.add()
        self._scope.scope.name, self._scope.scope.version = "kqueue", __version__
        self._start_ns, self._now_ns = start_ns, now_ns
        self._name = ""
        self._data: Any = None  # of the metric that was added last
        self.points = 0

    def add(self, metric: Metric, labels: Labels, value: Value) -> None:
        """Add one value."""
        if metric.name != self._name:
            self._begin(metric)
        point = self._data.data_points.add(time_unix_nano=self._now_ns)
        if metric.kind is not Kind.GAUGE:
            point.start_time_unix_nano = self._start_ns
        if isinstance(value, Histogram):
            counts = list(value.counts)  # a copy: the broker goes on counting
            point.count, point.sum = sum(counts), value.sum_s
            point.explicit_bounds.extend(BOUNDS_S)
            point.bucket_counts.extend(counts)
        elif isinstance(value, int):
            point.as_int = value
        else:
            point.as_double = value
        for key, text in zip(metric.labels, labels, strict=True):
            attribute = point.attributes.add(key=key)
            attribute.value.string_value = text
        self.points += 1

    def _begin(self, metric: Metric) -> None:
        made = self._scope.metrics.add(name=metric.name, description=metric.meaning, unit=_unit(metric.name))
        if metric.kind is Kind.GAUGE:
            self._data = made.gauge
        elif metric.kind is Kind.COUNTER:
            self._data = made.sum
            self._data.is_monotonic = True
        else:
            self._data = made.histogram
        if metric.kind is not Kind.GAUGE:
            self._data.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        self._name = metric.name

    def encode(self) -> bytes:
        """Return the bytes of the request."""
        data: bytes = self._request.SerializeToString()
        return data


def _unit(name: str) -> str:
    """Return the unit by the name, as UCUM writes it; "": a number of things."""
    if "_seconds" in name:
        return "s"
    return "By" if "_bytes" in name else ""


def _set_attributes(resource: Resource, values: Mapping[str, str]) -> None:
    """Set attributes in place of those that the resource has by these names."""
    kept = [attribute for attribute in resource.attributes if attribute.key not in values]
    del resource.attributes[:]
    resource.attributes.extend(kept)
    for key, text in values.items():
        resource.attributes.add(key=key).value.string_value = text


class ClientInstances:
    """The client instances whose metrics are passed on: at most `count_max`, as each is a label."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._pushed_ms: OrderedDict[str, int] = OrderedDict()  # the longest idle first

    def admit(self, push: ClientMetricsPush) -> bool:
        """Return whether the metrics of a push are passed on."""
        instance = push.client_instance_id
        while self._pushed_ms:
            oldest, pushed_ms = next(iter(self._pushed_ms.items()))
            if push.time_ms - pushed_ms < IDLE_MS:
                break
            del self._pushed_ms[oldest]
        if instance not in self._pushed_ms and len(self._pushed_ms) >= self._count_max:
            return False
        self._pushed_ms[instance] = push.time_ms
        self._pushed_ms.move_to_end(instance)
        if push.terminating:
            del self._pushed_ms[instance]
        return True


def message_of_client(push: ClientMetricsPush, broker: Mapping[str, str]) -> bytes | None:
    """Return what a client has pushed as a request, its names and values unchanged; None: it can't
    be read, or has nothing.

    Each resource gets the client's identity as the broker knows it, in place of what the client may
    have written there, and `broker`.
    """
    try:
        data = MetricsData.FromString(push.payload)
    except DecodeError:
        return None
    identity = {
        INSTANCE: push.client_instance_id,
        "client_id": push.client_id,
        "client_software_name": push.software_name,
        "client_software_version": push.software_version,
        "client_source_address": push.address,
        **broker,
    }
    request = ExportMetricsServiceRequest()
    for one in data.resource_metrics:
        _set_attributes(one.resource, identity)
        request.resource_metrics.append(one)
    return request.SerializeToString() if request.resource_metrics else None
