from __future__ import annotations

import asyncio
import logging
import socket
import sys
from concurrent.futures import Future

import pytest
from confluent_kafka.admin import AdminClient
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

import kqueue
from kqueue.base.errors import SettingError
from kqueue.base.names import uuid_text
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush
from kqueue.config.metrics_push import MetricsPush
from kqueue.telemetry import otlp_push
from kqueue.telemetry.otlp_push import MetricsPusher
from kqueue.telemetry.samples import Samples
from kqueue.tests.network.harness import connect, serving
from kqueue.tests.network.sasl_clients import in_loop
from kqueue.tests.telemetry.collector import attributes, collecting


def pusher_of(broker: kqueue.Broker) -> MetricsPusher:
    metrics = broker._server.metrics
    assert metrics is not None
    assert metrics._pusher is not None
    return metrics._pusher


def client_push(name: str = "client.metric") -> ClientMetricsPush:
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.add(name=name).gauge.data_points.add(as_int=1)
    return ClientMetricsPush("instance", "app", "lib", "1", "127.0.0.1", 0, False, data.SerializeToString())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "kqueue.telemetry"]


def test_the_rows_of_prometheus_are_pushed_with_what_clients_pushed() -> None:
    settings = {"kqueue.metrics.otlp.headers": "x-key=secret"}
    with collecting() as collector:
        with kqueue.Broker(kqueue_metrics_otlp_endpoint=collector.url, settings=settings) as broker:
            assert broker._server.metrics is not None
            assert broker._server.metrics.address is None
            broker.create_topic("t")
            broker.topics["t"].produce_all([b"x"] * 2)
            AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=20)
            pusher = pusher_of(broker)
            pusher.receive(client_push())
            pusher.push()
        path, headers, _ = collector.requests[0]
        assert path == "/v1/metrics"
        assert headers["Content-Type"] == "application/x-protobuf"
        assert headers["x-key"] == "secret"
        assert [(labels, point.as_int) for labels, point in collector.points("kqueue_partition_end_offset")] == [
            ({"topic": "t", "partition": "0"}, 2)
        ]
        assert any(labels == {"api": "Metadata"} for labels, _ in collector.points("kqueue_requests"))
        own, of_client = attributes(collector.resources[0].resource.attributes), collector.resources[-1]
        assert own["service.name"] == "kqueue"
        assert own["service.instance.id"].endswith("-1")
        assert attributes(of_client.resource.attributes)["client_instance_id"] == "instance"
        assert of_client.scope_metrics[0].metrics[0].name == "client.metric"


def test_clients_are_asked_for_metrics_where_they_are_pushed() -> None:
    with collecting() as collector, kqueue.Broker(kqueue_metrics_otlp_endpoint=collector.url) as broker:
        telemetry = broker._server.broker.telemetry
        assert telemetry.is_enabled
        assert telemetry.receiver is None


@in_loop
async def test_what_a_client_pushes_to_the_broker_reaches_the_collector() -> None:
    with collecting() as collector:
        async with serving(kqueue_metrics_otlp_endpoint=collector.url) as server:
            client = await connect(server)
            asked = await client.ask("GetTelemetrySubscriptions", 0)
            answer = await client.ask(
                "PushTelemetry",
                0,
                client_instance_id=asked.client_instance_id,
                subscription_id=asked.subscription_id,
                metrics=client_push().payload,
            )
            assert answer.error_code == 0
            assert server.metrics is not None
            assert server.metrics._pusher is not None
            await asyncio.to_thread(server.metrics._pusher.push)
        (passed_on,) = (one for one in collector.resources if one.scope_metrics[0].metrics[0].name == "client.metric")
        identity = attributes(passed_on.resource.attributes)
        assert identity["client_instance_id"] == uuid_text(bytes(asked.client_instance_id))
        assert identity["client_source_address"] == "127.0.0.1"


def test_a_collector_that_is_down_costs_one_line_and_later_counters_have_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kqueue.telemetry")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with kqueue.Broker(kqueue_metrics_otlp_endpoint=f"http://127.0.0.1:{port}") as broker:
        pusher = pusher_of(broker)
        pusher.receive(client_push())
        for _ in range(3):
            pusher.push()
        (line,) = told(caplog)
        assert line.startswith(
            f"metrics can't be pushed to http://127.0.0.1:{port}/v1/metrics (kqueue.metrics.otlp.endpoint); "
            "it is tried again each 60 s: "
        )
        with collecting() as collector:
            pusher._target = pusher._target._replace(port=collector.server_port)
            pusher.push()
            assert collector.points("client.metric"), "it was kept"
            collector.status = 503
            pusher.push()
            pusher.push()
        assert told(caplog)[1] == f"metrics are pushed to {pusher._target} again"
        assert "expected 200 OK, found 503" in told(caplog)[2]
        assert len(told(caplog)) == 3


class Read:
    """Samples that are read at once, or never."""

    def __init__(self, samples: Samples | None) -> None:
        self._samples = samples

    def __call__(self) -> Future[Samples]:
        future: Future[Samples] = Future()
        if self._samples is not None:
            future.set_result(self._samples)
        return future


def test_a_broker_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(otlp_push, "TIMEOUT_S", 0.05)
    pusher = MetricsPusher(MetricsPush("127.0.0.1", 1, "/", False, 1000, {}), Read(None), {}, 10)
    pusher.push()
    assert len(told(caplog)) == 1


def test_pushes_of_clients_are_bounded_while_nobody_takes_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    push = client_push()
    monkeypatch.setattr(otlp_push, "KEPT_BYTES_MAX", 10 * len(push.payload))
    pusher = MetricsPusher(MetricsPush("127.0.0.1", 1, "/", False, 1000, {}), Read(Samples()), {}, 1)
    for number in range(100):
        pusher.receive(client_push(f"client.{number:05}"))
    assert len(pusher._kept) <= 10
    for _ in range(2):
        pusher.receive(ClientMetricsPush("another", "app", "lib", "1", "127.0.0.1", 0, False, push.payload))
    assert told(caplog) == ["metrics of some clients are not passed on: too many clients (kqueue.metrics.names.max)"]


def test_without_the_extra_the_start_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", None)
    with pytest.raises(SettingError, match=r"kqueue.metrics.otlp.endpoint needs opentelemetry-proto: pip install"):
        kqueue.Broker(kqueue_metrics_otlp_endpoint="http://127.0.0.1:4318").start()
