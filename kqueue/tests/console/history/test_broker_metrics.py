from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.console.history import broker_metrics
from kqueue.console.history.broker_metrics import (
    VALUES,
    BrokerLoad,
    BrokerMetrics,
    MetricsUnavailable,
    checked_url,
    parsed,
    read_url,
)
from kqueue.tests.client.serving import batch
from kqueue.tests.tables import for_each
from kqueue.tests.telemetry.scraping import port_of

URL = "http://127.0.0.1:9404/metrics"


def text_of(requests: float = 0, errors: float = 0, quick: int = 0, slow: int = 0, *, more: str = "") -> str:
    return f"""# TYPE kqueue_requests_total counter
kqueue_requests_total{{api="Fetch"}} {requests}
# TYPE kqueue_request_errors_total counter
kqueue_request_errors_total{{api="Fetch",error="NONE"}} 1000
kqueue_request_errors_total{{api="Fetch",error="OFFSET_OUT_OF_RANGE"}} {errors}
# TYPE kqueue_request_handling_seconds histogram
kqueue_request_handling_seconds_bucket{{api="Fetch",le="0.001"}} {quick}
kqueue_request_handling_seconds_bucket{{api="Fetch",le="0.1"}} {quick + slow}
kqueue_request_handling_seconds_bucket{{api="Fetch",le="+Inf"}} {quick + slow}
kqueue_request_handling_seconds_sum{{api="Fetch"}} {quick * 0.001 + slow * 0.1}
kqueue_request_handling_seconds_count{{api="Fetch"}} {quick + slow}
# TYPE kqueue_connections gauge
kqueue_connections{{listener="PLAINTEXT"}} 3
{more}"""


def loaded(*texts: str, step_s: float = 10) -> BrokerLoad:
    """Return the load after these answers, which are `step_s` seconds apart."""
    answers, times = iter(texts), iter(range(len(texts)))
    metrics = BrokerMetrics(URL, read=lambda url: next(answers), now_s=lambda: step_s * next(times))
    loads = [metrics.sample() for _ in texts]
    assert loads[0] is None
    load = loads[-1]
    assert load is not None
    return load


def test_counters_become_rates_and_histograms_a_mean_and_a_quantile() -> None:
    load = loaded(text_of(), text_of(requests=100, errors=5, quick=98, slow=2))
    (fetch,) = load.apis
    assert (fetch.api, fetch.requests_per_s) == ("Fetch", 10)
    assert fetch.handling_mean_s == pytest.approx(0.00298)
    assert fetch.handling_high_s == load.values["handling_p99"] == pytest.approx(0.0505)
    assert load.connections == {"PLAINTEXT": 3}
    assert (load.values["requests"], load.values["errors"], load.values["connections"]) == (10, 0.5, 3)
    assert load.values["memory"] is None


def test_a_restart_of_the_broker_is_a_gap() -> None:
    load = loaded(text_of(requests=100, errors=5, quick=50), text_of(requests=3, quick=1))
    assert load.values["requests"] is load.values["errors"] is load.values["handling_p99"] is None


def test_a_second_reading_at_the_same_time_says_nothing() -> None:
    metrics = BrokerMetrics(URL, read=lambda url: text_of(), now_s=lambda: 5.0)
    assert metrics.sample() is metrics.sample() is None


def test_a_broker_of_ours_has_all_values() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("orders")
        metrics = BrokerMetrics(f"http://127.0.0.1:{port_of(broker)}")
        assert metrics.sample() is None
        with Client(broker.bootstrap) as client:
            client.produce({TopicPartition("orders", 0): batch([b"x"])})
            load = metrics.sample()
    assert load is not None
    assert load.values.keys() == VALUES.keys()
    assert {"Produce", "Metadata"} <= {each.api for each in load.apis}
    assert {name for name, value in load.values.items() if value is None} <= {
        *("loop_delay_p99", "handling_p99", "bytes_out", "free")
    }
    assert load.values["bytes_in"]
    assert sum(load.connections.values()) >= 1


@for_each(
    "text",
    [
        "",
        "<html>no</html>",
        "# TYPE a counter\na_total x",
        "up 1\n",
        'kqueue_connections{listener="a" 1',
        "kqueue_ready",
    ],
)
def test_an_answer_that_is_no_metrics_of_kqueue_is_refused(text: str) -> None:
    with pytest.raises(MetricsUnavailable, match=r"the answer (is not in|has no metric of kqueue)"):
        parsed(text, 0)


def test_labels_without_end_are_bounded() -> None:
    many = "".join(f'kqueue_connections{{listener="{number}{"x" * 1000}"}} 1\n' for number in range(1000))
    scrape = parsed(many, 0)
    assert len(scrape.connections) == broker_metrics.LISTENERS_MAX
    assert max(map(len, scrape.connections)) == broker_metrics.NAME_CHARACTERS_MAX
    with pytest.raises(MetricsUnavailable, match="lines of what is shown"):
        parsed("kqueue_connections 1\n" * 30_000, 0)


def test_values_without_meaning_are_left_out() -> None:
    load = loaded(text_of(), text_of(requests=1, more='kqueue_connections{listener="SSL"} NaN'))
    assert load.connections == {"PLAINTEXT": 3}


def test_addresses_of_metrics() -> None:
    assert checked_url("http://broker:9404") == checked_url("http://broker:9404/") == "http://broker:9404/metrics"
    assert checked_url("https://broker/other?x=1") == "https://broker/other?x=1"


@for_each(
    "url", ["broker:9404", "file:///etc/passwd", "http://", "http://a:b", "http://user:secret@a", "http://[::1", ""]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not an address of metrics; write http://HOST:PORT/metrics"):
        checked_url(url)


@contextmanager
def endpoint(status: int, body: bytes, headers: dict[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "headers", "why"),
    [
        (404, b"", {}, "can't be read: Not Found"),
        (302, b"", {"location": "file:///etc/passwd"}, "can't be read: Found"),
        (200, b"\xff", {}, "sends no text in UTF-8"),
        (200, b"x" * 200, {}, "sends more than 100 B"),
        (200, b"x", {"content-length": "50"}, "ended 49 bytes early"),
    ],
)
def test_an_endpoint_that_does_not_answer_well(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, headers: dict[str, str], why: str
) -> None:
    monkeypatch.setattr(broker_metrics, "BYTES_MAX", 100)
    with endpoint(status, body, headers) as url, pytest.raises(MetricsUnavailable, match=why):
        read_url(url)


def test_an_endpoint_that_is_not_there() -> None:
    with pytest.raises(MetricsUnavailable, match=r"http://127.0.0.1:1/metrics can't be read: .*refused"):
        read_url("http://127.0.0.1:1/metrics")
