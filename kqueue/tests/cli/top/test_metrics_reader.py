from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.cli.top import metrics_reader
from kqueue.cli.top.metrics_reader import MetricsReader
from kqueue.client import Client


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(node_id=7, kqueue_metrics_listener="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def url(broker: kqueue.Broker) -> str:
    metrics = broker._server.metrics
    assert metrics is not None
    return f"http://127.0.0.1:{metrics.address.port}"


def ask(broker: kqueue.Broker, times: int) -> None:
    with Client(broker.bootstrap) as client:
        for _ in range(times):
            client.metadata()


def test_requests_of_a_broker_are_read_every_5_seconds(broker: kqueue.Broker, url: str) -> None:
    reader = MetricsReader([f"{url}/"])
    ask(broker, 3)
    rows, problems = reader.read(10.0)
    (row,) = [row for row in rows if row.api == "Metadata"]
    assert (row.node_id, row.requests_per_s, problems) == ("7", None, [])
    assert row.handling_mean_s is not None
    assert row.handling_high_s is not None
    ask(broker, 20)
    assert reader.read(14.9)[0] == rows
    (row,) = [row for row in reader.read(15.0)[0] if row.api == "Metadata"]
    assert row.requests_per_s is not None
    assert row.requests_per_s >= 4.0


def test_a_broker_that_does_not_tell_is_a_problem_and_hides_no_other(url: str) -> None:
    rows, problems = MetricsReader(["http://127.0.0.1:1", f"{url}/nothing/here", url]).read(0.0)
    assert rows
    assert [line.partition(": ")[0] for line in problems] == [
        "no metrics from http://127.0.0.1:1",
        f"no metrics from {url}/nothing/here",
    ]


def test_an_answer_that_is_too_long_is_a_problem(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_reader, "ANSWER_BYTES_MAX", 1_000)
    assert MetricsReader([url]).read(0.0) == ([], [f"no metrics from {url}: expected at most 1000 bytes"])
