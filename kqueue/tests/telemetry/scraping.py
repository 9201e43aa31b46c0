"""Brokers that serve metrics, and what a scrape of them says."""

from __future__ import annotations

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

import kqueue

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


def port_of(broker: kqueue.Broker) -> int:
    metrics = broker._server.metrics
    assert metrics is not None
    return metrics.address.port


def scrape(broker: kqueue.Broker) -> Values:
    return values_of(get(port_of(broker), "/metrics")[2])
