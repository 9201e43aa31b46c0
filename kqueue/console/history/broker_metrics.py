"""The metrics of one kqueue broker: its `/metrics` is read, and counters become rates.

Rates, means and quantiles are those between two samples. What the endpoint sends is bounded, in
bytes, in time, and in the number of APIs and listeners that are kept.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from prometheus_client.parser import text_string_to_metric_families

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.text import size_text

BYTES_MAX = 16_000_000
READ_BYTES = 65_536
CONNECT_S, READ_S = 5.0, 15.0
LABELS_MAX = 200
"""APIs, listeners and folders that are kept."""
NAME_CHARACTERS_MAX = 200
P99 = 0.99

Buckets = Mapping[float, float]
"""Counts of a histogram by upper bound, each with all smaller values."""


class MetricsUnavailable(KqueueError):
    """The metrics of a broker can't be read: unreachable, or not what was expected."""


class Timing(NamedTuple):
    """How long something took, in seconds. None: nothing was counted between the samples."""

    mean_s: float | None = None
    p99_s: float | None = None


class ApiLoad(NamedTuple):
    """The requests of one API between two samples.

    `rate`, `errors`: per second. `handling`: on the broker's thread. `waiting`: of those that
    waited for a flush, for records or others, until their response.
    """

    api: str
    rate: float
    errors: float
    handling: Timing
    waiting: Timing


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker did between two samples.

    Attributes:
        apis: the busiest first. connections: by listener. values: by name, see `VALUES`.
    """

    apis: list[ApiLoad]
    connections: dict[str, int]
    values: dict[str, float | None]


VALUES = {
    "requests": "Requests per second",
    "errors": "Error codes answered per second",
    "bytes_in": "Bytes appended per second",
    "bytes_out": "Bytes sent to consumers per second",
    "handling_p99": "Handling of requests, p99",
    "loop_delay_p99": "Delay of the event loop, p99",
    "connections": "Connections",
    "waiting_requests": "Requests that wait",
    "memory": "Resident memory",
    "cpu": "Processor seconds per second",
    "free": "Free bytes of the fullest data folder",
}
"""The values of a broker that have a history, with their titles."""


@dataclass(slots=True)
class _Scrape:
    """What one answer of the endpoint says, reduced to what is shown."""

    time_s: float
    totals: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    requests: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    errors: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    handling: dict[str, _Histogram] = field(default_factory=lambda: defaultdict(_Histogram))
    waiting: dict[str, _Histogram] = field(default_factory=lambda: defaultdict(_Histogram))
    loop_delay: _Histogram = field(default_factory=lambda: _Histogram())
    connections: dict[str, int] = field(default_factory=dict)
    free: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Histogram:
    sum_s: float = 0.0
    count: float = 0.0
    buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, suffix: str, bound: str, value: float) -> None:
        if suffix == "_sum":
            self.sum_s += value
        elif suffix == "_count":
            self.count += value
        elif suffix == "_bucket" and len(self.buckets) < LABELS_MAX and not math.isnan(upper := float(bound)):
            self.buckets[upper] += value

    def add_all(self, other: _Histogram) -> None:
        self.sum_s += other.sum_s
        self.count += other.count
        for bound, count in other.buckets.items():
            self.buckets[bound] += count


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
        self._before: _Scrape | None = None

    def sample(self) -> BrokerLoad | None:
        """Read the metrics; return what happened since the last sample; None: this is the first.

        Raises: MetricsUnavailable.
        """
        scrape = parsed(self._read(self.url), self._now_s())
        before, self._before = self._before, scrape
        if before is None or scrape.time_s <= before.time_s:
            return None
        return _load(before, scrape)


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
        raise MetricsUnavailable(f"{url} can't be read: {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise MetricsUnavailable(f"{url} can't be read: {error or type(error).__name__}") from None
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise MetricsUnavailable(f"{url} sends no text in UTF-8") from None


def parsed(text: str, time_s: float) -> _Scrape:
    """Return what the text of an endpoint says. Raises: MetricsUnavailable: it is no such text."""
    scrape = _Scrape(time_s)
    is_kqueue = False
    try:
        for family in text_string_to_metric_families(text):
            is_kqueue = is_kqueue or family.name.startswith("kqueue_")
            for sample in family.samples:
                if math.isfinite(sample.value):
                    name, suffix = _split(sample.name)
                    _add(scrape, name, suffix, sample.labels, sample.value)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise MetricsUnavailable(f"the answer is not in Prometheus's text format: {error}") from None
    if not is_kqueue:
        raise MetricsUnavailable("the answer has no metric of kqueue; give the address of a kqueue broker's metrics")
    return scrape


def _split(name: str) -> tuple[str, str]:
    """Return the name of a sample's metric, and what the format adds to it."""
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


_TOTALS = {
    "kqueue_topic_appended_bytes": "bytes_in",
    "kqueue_topic_sent_bytes": "bytes_out",
    "kqueue_waiting_requests": "waiting_requests",
    "process_resident_memory_bytes": "memory",
    "process_cpu_seconds": "cpu",
}


def _add(scrape: _Scrape, name: str, suffix: str, labels: Mapping[str, str], value: float) -> None:
    api = labels.get("api", "")[:NAME_CHARACTERS_MAX]
    if name in _TOTALS:
        scrape.totals[_TOTALS[name]] += value
    elif name == "kqueue_requests" and _has_room(scrape.requests, api):
        scrape.requests[api] += value
    elif name == "kqueue_request_errors" and _has_room(scrape.errors, api):
        if labels.get("error") != "NONE":
            scrape.errors[api] += value
    elif name == "kqueue_request_handling_seconds" and _has_room(scrape.handling, api):
        scrape.handling[api].add(suffix, labels.get("le", ""), value)
    elif name == "kqueue_request_waiting_seconds" and _has_room(scrape.waiting, api):
        scrape.waiting[api].add(suffix, labels.get("le", ""), value)
    elif name == "kqueue_loop_delay_seconds":
        scrape.loop_delay.add(suffix, labels.get("le", ""), value)
    elif name == "kqueue_connections":
        listener = labels.get("listener", "")[:NAME_CHARACTERS_MAX]
        if _has_room(scrape.connections, listener):
            scrape.connections[listener] = int(value)
    elif name == "kqueue_folder_free_bytes" and len(scrape.free) < LABELS_MAX:
        scrape.free.append(value)


def _has_room(by_name: Mapping[str, object], name: str) -> bool:
    return name in by_name or len(by_name) < LABELS_MAX


def _load(before: _Scrape, after: _Scrape) -> BrokerLoad:
    elapsed_s = after.time_s - before.time_s
    apis = [
        ApiLoad(
            api,
            rate,
            (_rate(before.errors.get(api, 0.0), after.errors[api], elapsed_s) or 0.0) if api in after.errors else 0.0,
            _timing(before.handling.get(api), after.handling.get(api)),
            _timing(before.waiting.get(api), after.waiting.get(api)),
        )
        for api, total in after.requests.items()
        if (rate := _rate(before.requests.get(api, 0.0), total, elapsed_s)) is not None
    ]
    apis.sort(key=lambda each: (-each.rate, each.api))
    has_restarted = len(apis) < len(after.requests)
    rates = {
        name: _rate(before.totals[name], after.totals[name], elapsed_s) if name in after.totals else None
        for name in ("bytes_in", "bytes_out", "cpu")
    }
    values: dict[str, float | None] = {
        "requests": None if has_restarted else sum(each.rate for each in apis),
        "errors": None if has_restarted else sum(each.errors for each in apis),
        **rates,
        "handling_p99": _timing(_sum(before.handling.values()), _sum(after.handling.values())).p99_s,
        "loop_delay_p99": _timing(before.loop_delay, after.loop_delay).p99_s,
        "connections": float(sum(after.connections.values())) if after.connections else None,
        "waiting_requests": after.totals.get("waiting_requests"),
        "memory": after.totals.get("memory"),
        "free": min(after.free, default=None),
    }
    return BrokerLoad(apis, after.connections, values)


def _rate(before: float, after: float, elapsed_s: float) -> float | None:
    """Return the rate of a counter; None: it was set back, by a restart."""
    return (after - before) / elapsed_s if after >= before else None


def _sum(histograms: Iterable[_Histogram]) -> _Histogram:
    total = _Histogram()
    for histogram in histograms:
        total.add_all(histogram)
    return total


def _timing(before: _Histogram | None, after: _Histogram | None) -> Timing:
    if after is None:
        return Timing()
    before = before or _Histogram()
    count = after.count - before.count
    if count <= 0:
        return Timing()
    buckets = {bound: total - before.buckets.get(bound, 0.0) for bound, total in after.buckets.items()}
    return Timing(max(0.0, after.sum_s - before.sum_s) / count, quantile(P99, buckets))


def quantile(share: float, buckets: Buckets) -> float | None:
    """Return the value below which this share of all values is; None: there is none.

    Within a bucket values count as evenly distributed; above the last finite bound as that bound.
    Source: Prometheus, histogram_quantile.
    """
    bounds = sorted(buckets)
    if not bounds or not math.isinf(bounds[-1]):
        return None
    wanted = share * buckets[bounds[-1]]
    if wanted <= 0:
        return None
    lower, below = 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= wanted:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / max(count - below, 1e-12)
        lower, below = bound, max(below, count)
    return lower
