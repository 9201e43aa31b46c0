"""The metrics of one kqueue broker: its `/metrics` is read, and counters become rates.

Rates, means and quantiles are those between two samples. What the endpoint sends is bounded, in
bytes, in time, and in what is kept of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from prometheus_client.parser import text_string_to_metric_families

from kqueue.admin.request_times import (
    NOTHING,
    ApiTimes,
    Histogram,
    RequestCounters,
    RequestHistory,
    parse_counters,
)
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.text import size_text

BYTES_MAX = 16_000_000
READ_BYTES = 65_536
CONNECT_S, READ_S = 5.0, 15.0
LINES_MAX = 20_000
APIS_MAX = LISTENERS_MAX = 200
NAME_CHARACTERS_MAX = 200
P99 = 0.99


class MetricsUnavailable(KqueueError):
    """The metrics of a broker can't be read: unreachable, or not what was expected."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker did of late.

    Attributes:
        apis: the requests of the last minute, the busiest API first.
        connections: by listener.
        values: by name, see `VALUES`; rates and quantiles between the two latest samples.
    """

    apis: list[ApiTimes]
    connections: dict[str, int]
    values: dict[str, float | None]


VALUES = {
    "requests": "Requests per second",
    "errors": "Error codes answered per second",
    "bytes_in": "Bytes appended per second",
    "bytes_out": "Bytes sent to consumers per second",
    "handling_p99": "Handling of requests of the slowest API, p99",
    "loop_delay_p99": "Delay of the event loop, p99",
    "connections": "Connections",
    "waiting_requests": "Requests that wait",
    "memory": "Resident memory",
    "cpu": "Processor seconds per second",
    "free": "Free bytes of the fullest data folder",
}
"""The values of a broker that have a history, with their titles."""


@dataclass(slots=True)
class Scrape:
    """What one answer of the endpoint says, reduced to what is shown."""

    time_s: float
    counters: RequestCounters
    totals: dict[str, float] = field(default_factory=dict)
    loop_delay: Histogram = NOTHING
    connections: dict[str, int] = field(default_factory=dict)
    free_bytes: float | None = None


class BrokerMetrics:
    """Reads the metrics of one broker.

    Args:
        url: of its metrics, as in ``http://127.0.0.1:9404/metrics``.
        read: returns the text at an address; raises MetricsUnavailable.
        now_s: returns seconds of a clock that only goes forward.
    Raises: ValueError: not an address of HTTP.
    """

    def __init__(
        self,
        url: str,
        *,
        read: Callable[[str], str] | None = None,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.url = checked_url(url)
        self._read = read or read_url
        self._now_s = now_s
        self._before: Scrape | None = None
        self._requests = RequestHistory()

    def sample(self) -> BrokerLoad | None:
        """Read the metrics; return what happened since the last sample; None: this is the first.

        Raises: MetricsUnavailable.
        """
        scrape = parsed(self._read(self.url), self._now_s())
        before, self._before = self._before, scrape
        if before is not None and scrape.time_s <= before.time_s:
            return None
        self._requests.add(scrape.time_s, scrape.counters)
        if before is None:
            return None
        apis = sorted(self._requests.times()[:APIS_MAX], key=lambda each: (-(each.requests_per_s or 0), each.api))
        return BrokerLoad(apis, scrape.connections, _values(before, scrape))


def checked_url(url: str) -> str:
    """Return the address of metrics; ``/metrics`` is added where there is no path.

    Raises: ValueError.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or "@" in parts.netloc:
        raise ValueError(f"{url!r} is not an address of metrics; write http://HOST:PORT/metrics")
    return parts._replace(path=parts.path if parts.path not in ("", "/") else "/metrics", fragment="").geturl()


class _NoRedirect(HTTPRedirectHandler):
    """The address is the operator's choice; an endpoint may not send the console elsewhere."""

    def redirect_request(self, *arguments: object) -> None:
        return None


def read_url(url: str) -> str:
    """Return the text at an address of HTTP. Raises: MetricsUnavailable."""
    request = Request(url, headers={"Accept": "text/plain; version=0.0.4", "Connection": "close"})
    end_s = monotonic_s() + READ_S
    body = bytearray()
    try:
        with build_opener(_NoRedirect).open(request, timeout=CONNECT_S) as response:
            while part := response.read1(READ_BYTES):
                body += part
                if len(body) > BYTES_MAX:
                    raise MetricsUnavailable(f"{url} sends more than {size_text(BYTES_MAX)}")
                if monotonic_s() > end_s:
                    raise MetricsUnavailable(f"{url} takes more than {READ_S:.0f} s to answer")
            if response.length:
                raise MetricsUnavailable(f"{url} ended {response.length:,} bytes early")
    except URLError as error:
        if isinstance(error, HTTPError):
            error.close()
        raise MetricsUnavailable(f"{url} can't be read: {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise MetricsUnavailable(f"{url} can't be read: {error or type(error).__name__}") from None
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise MetricsUnavailable(f"{url} sends no text in UTF-8") from None


def parsed(text: str, time_s: float) -> Scrape:
    """Return what the text of an endpoint says. Raises: MetricsUnavailable: it is no such text."""
    try:
        scrape = Scrape(time_s, parse_counters(text))
        _read_values(scrape, text)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise MetricsUnavailable(f"the answer is not in Prometheus's text format: {error}") from None
    if not (scrape.counters.node_id or scrape.counters.requests or scrape.connections):
        raise MetricsUnavailable("the answer has no metric of kqueue; give the address of a kqueue broker's metrics")
    return scrape


ERRORS, CONNECTIONS, FREE = "kqueue_request_errors_total", "kqueue_connections", "kqueue_folder_free_bytes"
LOOP_DELAY = "kqueue_loop_delay_seconds"
TOTALS = {
    "kqueue_topic_appended_bytes_total": "bytes_in",
    "kqueue_topic_sent_bytes_total": "bytes_out",
    "kqueue_waiting_requests": "waiting_requests",
    "process_resident_memory_bytes": "memory",
    "process_cpu_seconds_total": "cpu",
    ERRORS: "errors",
}
"""Metrics of which the sum over all labels counts."""
SHOWN = (*TOTALS, CONNECTIONS, FREE, LOOP_DELAY)


def _read_values(scrape: Scrape, text: str) -> None:
    # the rest of a scrape is a line for each partition, which is not shown
    lines = [line for line in text.split("\n") if line.startswith(SHOWN)]
    if len(lines) > LINES_MAX:
        raise ValueError(f"it has {len(lines):,} lines of what is shown; expected at most {LINES_MAX:,}")
    buckets: dict[float, float] = {}
    sum_s = 0.0
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for name, labels, value, *_ in family.samples:
            if not math.isfinite(value):
                continue
            if name in TOTALS and labels.get("error") != "NONE":
                scrape.totals[TOTALS[name]] = scrape.totals.get(TOTALS[name], 0.0) + value
            elif name == CONNECTIONS and len(scrape.connections) < LISTENERS_MAX:
                scrape.connections[labels.get("listener", "")[:NAME_CHARACTERS_MAX]] = int(value)
            elif name == FREE:
                scrape.free_bytes = value if scrape.free_bytes is None else min(value, scrape.free_bytes)
            elif name == f"{LOOP_DELAY}_sum":
                sum_s = value
            elif name == f"{LOOP_DELAY}_bucket" and not math.isnan(bound := float(labels.get("le", "nan"))):
                buckets[bound] = value
    scrape.loop_delay = Histogram(sum_s, sorted(buckets.items()))


def _values(before: Scrape, after: Scrape) -> dict[str, float | None]:
    elapsed_s = after.time_s - before.time_s

    def rate(name: str) -> float | None:
        """Return the growth of a counter per second; None: it was set back, by a restart."""
        if name not in after.totals:
            return None
        grown = after.totals[name] - before.totals.get(name, 0.0)
        return grown / elapsed_s if grown >= 0 else None

    requests = sum(after.counters.requests.values()) - sum(before.counters.requests.values())
    has_restarted = requests < 0
    return {
        "requests": None if has_restarted else requests / elapsed_s,
        "errors": None if has_restarted else rate("errors") or 0.0,
        "bytes_in": rate("bytes_in"),
        "bytes_out": rate("bytes_out"),
        "handling_p99": None if has_restarted else _slowest(before.counters.handling, after.counters.handling),
        "loop_delay_p99": None if has_restarted else after.loop_delay.since(before.loop_delay).percentile_s(P99),
        "connections": float(sum(after.connections.values())) if after.connections else None,
        "waiting_requests": after.totals.get("waiting_requests"),
        "memory": after.totals.get("memory"),
        "cpu": rate("cpu"),
        "free": after.free_bytes,
    }


def _slowest(before: Mapping[str, Histogram], after: Mapping[str, Histogram]) -> float | None:
    """Return the 99th percentile of the API for which it is the highest."""
    percentiles = [histogram.since(before.get(api)).percentile_s(P99) for api, histogram in after.items()]
    return max((each for each in percentiles if each is not None), default=None)
