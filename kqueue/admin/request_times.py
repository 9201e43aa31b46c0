"""The busiest and slowest requests of a broker, from the text of its `/metrics`.

A broker of kqueue counts its requests (`kqueue.metrics.listener`); Kafka's protocol has nothing of
the kind. The histograms grow since the start of the broker, so the times of the last minute are the
difference of two readings.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

REQUESTS = "kqueue_requests_total"
INFO = "kqueue_broker_info"
HANDLING, WAITING = "kqueue_request_handling_seconds", "kqueue_request_waiting_seconds"
LINES_MAX = 20_000
WINDOW_S = 60.0
HIGH_PERCENTILE = 0.99


@dataclass(frozen=True, slots=True)
class Histogram:
    """Times of requests. `buckets`: upper bound in seconds and number of requests up to it."""

    total_s: float
    buckets: Sequence[tuple[float, float]]

    @property
    def count(self) -> float:
        """The number of requests."""
        return self.buckets[-1][1] if self.buckets else 0.0

    @property
    def mean_s(self) -> float | None:
        """The mean; None: no request."""
        return self.total_s / self.count if self.count > 0 else None

    def percentile_s(self, share: float) -> float | None:
        """Return the time that `share` of the requests did not exceed, within its bucket by a
        straight line; of the last bucket its lower bound. None: no request.
        """
        if self.count <= 0:
            return None
        wanted = share * self.count
        low_s, below = 0.0, 0.0
        for bound_s, count in self.buckets:
            if count >= wanted and count > below:
                if math.isinf(bound_s):
                    return low_s
                return low_s + (bound_s - low_s) * (wanted - below) / (count - below)
            low_s, below = bound_s, count
        return low_s

    def since(self, earlier: Histogram | None) -> Histogram:
        """Return what came after an earlier reading; None, or one of before a restart: all."""
        if earlier is None or earlier.count > self.count:
            return self
        before = dict(earlier.buckets)
        buckets = [(bound_s, max(0.0, count - before.get(bound_s, 0.0))) for bound_s, count in self.buckets]
        return Histogram(max(0.0, self.total_s - earlier.total_s), buckets)


NOTHING = Histogram(0.0, ())


@dataclass(frozen=True, slots=True)
class RequestCounters:
    """One reading of a broker's counters, by the name of the API. `node_id`: "" where not given."""

    node_id: str = ""
    requests: Mapping[str, float] = field(default_factory=dict)
    handling: Mapping[str, Histogram] = field(default_factory=dict)
    waiting: Mapping[str, Histogram] = field(default_factory=dict)


class ApiTimes(NamedTuple):
    """The requests of one API at one broker. None: no request, or none that was timed or waited.

    `requests_per_s`: None too after the first reading. Times in seconds, mean and 99th percentile:
    on the broker's thread, and until the response of those that waited.
    """

    node_id: str
    api: str
    requests_per_s: float | None
    handling_mean_s: float | None
    handling_high_s: float | None
    waiting_mean_s: float | None
    waiting_high_s: float | None


def parse_counters(text: str) -> RequestCounters:
    """Return the counters of requests from the text of `/metrics`; it needs prometheus-client.

    Raises: ValueError: the text is not of this format, has more than 20,000 lines about requests,
        or numbers that are none.
    """
    from prometheus_client.parser import text_string_to_metric_families

    # the rest of a scrape is a line for each partition, which is not needed here
    lines = [
        line for line in text.split("\n") if REQUESTS in line or INFO in line or HANDLING in line or WAITING in line
    ]
    if len(lines) > LINES_MAX:
        raise ValueError(f"it has {len(lines):,} lines about requests; expected at most {LINES_MAX:,}")
    node_id = ""
    requests: dict[str, float] = {}
    sums: dict[tuple[str, str], float] = {}
    buckets: dict[tuple[str, str], dict[float, float]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            api = sample.labels.get("api", "")
            if sample.name == INFO:
                node_id = sample.labels.get("node_id", "")
            elif sample.name == REQUESTS:
                requests[api] = _finite(sample.value)
            elif sample.name in (f"{HANDLING}_sum", f"{WAITING}_sum"):
                sums[sample.name.removesuffix("_sum"), api] = _finite(sample.value)
            elif sample.name in (f"{HANDLING}_bucket", f"{WAITING}_bucket"):
                key = (sample.name.removesuffix("_bucket"), api)
                buckets.setdefault(key, {})[float(sample.labels.get("le", "nan"))] = _finite(sample.value)
    histograms = {key: Histogram(sums.get(key, 0.0), sorted(by_bound.items())) for key, by_bound in buckets.items()}
    return RequestCounters(
        node_id,
        requests,
        {api: one for (name, api), one in histograms.items() if name == HANDLING},
        {api: one for (name, api), one in histograms.items() if name == WAITING},
    )


class RequestHistory:
    """Readings of one broker in the last minute.

    Thread: one at a time.
    """

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._readings: deque[tuple[float, RequestCounters]] = deque()

    def add(self, time_s: float, counters: RequestCounters) -> None:
        """Add a reading; `time_s` is of a monotonic clock."""
        self._readings.append((time_s, counters))
        while len(self._readings) > 2 and self._readings[1][0] <= time_s - self._window_s:
            self._readings.popleft()

    def times(self) -> list[ApiTimes]:
        """Return the APIs with requests in the last minute; after one reading, since the start."""
        if not self._readings:
            return []
        time_s, latest = self._readings[-1]
        first_s, first = self._readings[0] if len(self._readings) > 1 else (time_s, RequestCounters())
        rows = []
        for api, count in sorted(latest.requests.items()):
            before = first.requests.get(api, 0.0)
            requests = count - before if count >= before else count  # fewer: the broker started again
            if requests <= 0:
                continue
            handling = latest.handling.get(api, NOTHING).since(first.handling.get(api))
            waiting = latest.waiting.get(api, NOTHING).since(first.waiting.get(api))
            rows.append(
                ApiTimes(
                    latest.node_id,
                    api,
                    requests / (time_s - first_s) if time_s > first_s else None,
                    handling.mean_s,
                    handling.percentile_s(HIGH_PERCENTILE),
                    waiting.mean_s,
                    waiting.percentile_s(HIGH_PERCENTILE),
                )
            )
        return rows


def _finite(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"it counts {value}; expected a number from 0 on")
    return value
