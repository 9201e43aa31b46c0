from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kqueue.base.histogram import BOUNDS_S, Histogram
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush
from kqueue.telemetry.otlp_messages import IDLE_MS, POINTS_MAX, ClientInstances, message_of_client, messages_of
from kqueue.telemetry.samples import Samples
from kqueue.tests.tables import for_each
from kqueue.tests.telemetry.collector import attributes

RESOURCE = {"service.name": "kqueue"}


def metrics_of(samples: Samples) -> dict[str, Any]:
    (message,) = messages_of(samples, RESOURCE, 5, 9)
    (resource,) = ExportMetricsServiceRequest.FromString(message).resource_metrics
    assert attributes(resource.resource.attributes) == RESOURCE
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_each_kind_of_metric_has_its_form() -> None:
    samples, histogram = Samples(), Histogram()
    histogram.observe(BOUNDS_S[0])
    histogram.observe(100.0)
    samples.add("kqueue_requests", 7, "Produce")
    samples.add("kqueue_cleaner_dirty_ratio_max", 0.5)
    samples.add("kqueue_flush_seconds", histogram)
    metrics = metrics_of(samples)

    counter = metrics["kqueue_requests"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = counter.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (7, 5, 9)
    assert attributes(point.attributes) == {"api": "Produce"}

    (point,) = metrics["kqueue_cleaner_dirty_ratio_max"].gauge.data_points
    assert point.as_double == 0.5

    flushes = metrics["kqueue_flush_seconds"]
    (point,) = flushes.histogram.data_points
    assert (flushes.unit, point.count, point.sum) == ("s", 2, 100.0 + BOUNDS_S[0])
    assert list(point.explicit_bounds) == list(BOUNDS_S)
    assert list(point.bucket_counts) == [1, *[0] * (len(BOUNDS_S) - 1), 1]


def test_many_values_are_several_messages() -> None:
    samples = Samples()
    for number in range(POINTS_MAX + 1):
        samples.add("kqueue_partition_end_offset", number, "t", str(number))
    messages = [ExportMetricsServiceRequest.FromString(one) for one in messages_of(samples, RESOURCE, 0, 1)]
    sizes = [len(one.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points) for one in messages]
    assert sizes == [POINTS_MAX, 1]
    assert list(messages_of(Samples(), RESOURCE, 0, 1)) == []


def pushed(payload: bytes, instance: str = "i", time_ms: int = 0, *, terminating: bool = False) -> ClientMetricsPush:
    return ClientMetricsPush(instance, "app", "lib", "1.0", "10.0.0.1", time_ms, terminating, payload)


def test_what_a_client_pushed_keeps_its_names_and_gets_the_identity_that_the_broker_knows() -> None:
    data = MetricsData()
    resource = data.resource_metrics.add()
    for key in ("client_instance_id", "service.name", "own"):
        resource.resource.attributes.add(key=key).value.string_value = "as the client says"
    metric = resource.scope_metrics.add().metrics.add(name="org.apache.kafka.producer.record.send.total")
    metric.sum.data_points.add(as_int=3)
    message = message_of_client(pushed(data.SerializeToString()), {"service.name": "kqueue"})
    assert message is not None
    (passed_on,) = ExportMetricsServiceRequest.FromString(message).resource_metrics
    assert attributes(passed_on.resource.attributes) == {
        "own": "as the client says",
        "client_instance_id": "i",
        "client_id": "app",
        "client_software_name": "lib",
        "client_software_version": "1.0",
        "client_source_address": "10.0.0.1",
        "service.name": "kqueue",
    }
    assert passed_on.scope_metrics[0].metrics[0] == metric


@for_each("payload", [b"", b"\xff", b"\x0a\xff\xff\xff\xff\x7f", bytes(100)])
def test_what_can_not_be_read_or_is_empty_is_not_passed_on(payload: bytes) -> None:
    assert message_of_client(pushed(payload), {}) is None


def test_instances_are_bounded_and_leave_their_place_when_they_end_or_are_idle() -> None:
    instances = ClientInstances(2)
    assert [instances.admit(pushed(b"", one)) for one in ("a", "b", "c", "a")] == [True, True, False, True]
    assert instances.admit(pushed(b"", "b", terminating=True))
    assert instances.admit(pushed(b"", "c", IDLE_MS - 1))
    assert not instances.admit(pushed(b"", "d", IDLE_MS - 1))
    assert instances.admit(pushed(b"", "d", IDLE_MS)), "a has been idle for long"
