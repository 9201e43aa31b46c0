"""Brokers that serve metrics, and what a scrape of them says."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

import kqueue
from kqueue.api.request_meter import RequestMeter
from kqueue.base.histogram import Histogram
from kqueue.base.sliced_task import run_to_end
from kqueue.broker.broker import Broker
from kqueue.broker.replicas.flush_meter import FlushMeter
from kqueue.embedded.cluster_broker import ClusterBroker
from kqueue.telemetry.sample_reader import SampleReader
from kqueue.telemetry.samples import Samples, Session, Sources


class NoConnections:
    """The connections of a broker without a server."""

    def __init__(self) -> None:
        self.waiting_requests = 0
        self.sessions: list[Session] = []
        self.authentication_failures: Counter[tuple[str, str]] = Counter()
        self.queued: Histogram | None = None
        self.send_blocked: Histogram | None = None


def sources_of(broker: Broker, *, names_max: int = 1000) -> Sources:
    """Return what metrics of a broker without a server are read from."""
    return Sources(
        broker, RequestMeter(), FlushMeter(), NoConnections(), lambda: 0, lambda: False, Histogram(), names_max
    )


def samples_of(broker: Broker) -> Samples:
    """Return the samples of a broker without a server."""
    return run_to_end(SampleReader(sources_of(broker)).read())


Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def get(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    """Return status, content type and text of an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def values_of(text: str) -> Values:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def port_of(broker: kqueue.Broker | ClusterBroker) -> int:
    metrics = broker._server.metrics
    assert metrics is not None
    assert metrics.address is not None
    return metrics.address.port


def scrape(broker: kqueue.Broker | ClusterBroker) -> Values:
    return values_of(get(port_of(broker), "/metrics")[2])
