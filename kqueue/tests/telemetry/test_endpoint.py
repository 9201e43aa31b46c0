"""Metrics and health over HTTP, of a broker that real clients use."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import kqueue
from kqueue.base.errors import ListenFailed
from kqueue.telemetry import endpoint
from kqueue.telemetry.endpoint import REQUESTS_MAX, MetricsEndpoint
from kqueue.telemetry.samples import Samples
from kqueue.tests.network.tls_harness import broker_pair, client_context
from kqueue.tests.telemetry.scraping import get, port_of


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0", kqueue_metrics_names_max=2) as broker:
        yield broker


def test_health_of_a_broker_that_serves(broker: kqueue.Broker) -> None:
    assert get(port_of(broker), "/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
    assert get(port_of(broker), "/readyz") == (200, "text/plain; charset=utf-8", "ready\n")


def test_other_paths_and_methods_are_refused_in_a_sentence(broker: kqueue.Broker) -> None:
    assert get(port_of(broker), "/") == (
        404, "text/plain; charset=utf-8", "there are /metrics, /healthz and /readyz\n",
    )  # fmt: skip
    request = urllib.request.Request(f"http://127.0.0.1:{port_of(broker)}/metrics", method="POST", data=b"x")
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
        pass
    assert refused.value.code == 405
    refused.value.close()


def never(in_sync: bool) -> Future[list[str]]:
    return Future()


def no_samples() -> Future[Samples]:
    return Future()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsEndpoint]:
    """The endpoint of a broker whose loop does not run."""
    monkeypatch.setattr(endpoint, "ANSWER_S", 0.05)
    made = MetricsEndpoint("127.0.0.1", 0, no_samples, never)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_loop_that_hangs_is_told_and_not_waited_for(hanging: MetricsEndpoint, path: str) -> None:
    status, _, text = get(hanging.port, path)
    assert (status, text) == (503, "the event loop has not run for 0 s: no client is served\n")


def test_reasons_that_keep_a_broker_from_serving_are_listed() -> None:
    def reasons(in_sync: bool) -> Future[list[str]]:
        future: Future[list[str]] = Future()
        behind = ["not in sync yet: 2 replicas of this broker"] if in_sync else []
        future.set_result(["3 logs still to be recovered", "the disk is gone", *behind])
        return future

    made = MetricsEndpoint("127.0.0.1", 0, no_samples, reasons)
    made.start()
    assert get(made.port, "/readyz") == (
        503, "text/plain; charset=utf-8", "3 logs still to be recovered\nthe disk is gone\n",
    )  # fmt: skip
    for query, lines in (("?in_sync=true", 3), ("?in_sync=1", 2), ("?in_sync=", 2)):
        assert len(get(made.port, f"/readyz{query}")[2].splitlines()) == lines
    assert get(made.port, "/healthz")[0] == 200
    made.stop()
    made.stop()


def test_idle_connections_take_only_their_own_places(broker: kqueue.Broker) -> None:
    """A client that says nothing holds a thread until its time is over; others are served."""
    port = port_of(broker)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(REQUESTS_MAX - 1)]
    assert get(port, "/healthz")[0] == 200
    for one in idle:
        one.close()


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.listen()
        with pytest.raises(ListenFailed, match=rf"127.0.0.1:{port} for metrics \(kqueue.metrics.listener\)"):
            kqueue.Broker(kqueue_metrics_listener=f"127.0.0.1:{port}").start()


def test_the_certificate_is_that_of_the_listener_metrics() -> None:
    prefix, pair = "listener.name.metrics.ssl.keystore", broker_pair()
    settings = {
        "kqueue.metrics.listener": "https://127.0.0.1:0",
        f"{prefix}.type": "PEM",
        f"{prefix}.certificate.chain": pair.certificate,
        f"{prefix}.key": pair.key,
    }
    with kqueue.Broker(settings=settings) as broker:
        url = f"https://127.0.0.1:{port_of(broker)}/healthz"
        with urllib.request.urlopen(url, context=client_context(), timeout=20) as answer:
            assert answer.read() == b"ok\n"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(url, timeout=20)


def test_an_address_can_be_taken_again_at_once_although_it_closed_connections(broker: kqueue.Broker) -> None:
    """A connection that the server closed stays in TIME_WAIT, beyond the end of its process."""
    port = port_of(broker)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        while connection.recv(4096):
            pass
    broker.stop()
    again = MetricsEndpoint("127.0.0.1", port, no_samples, never)
    again.start()
    again.stop()
