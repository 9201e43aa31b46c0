from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.admin import request_times
from kqueue.admin.request_times import (
    NOTHING,
    ApiTimes,
    Histogram,
    RequestCounters,
    RequestHistory,
    parse_counters,
)
from kqueue.tests.tables import for_each

TEXT = """\
# HELP kqueue_broker_info Always 1.
# TYPE kqueue_broker_info gauge
kqueue_broker_info{cluster_id="c",node_id="7",version="1"} 1.0
# TYPE kqueue_topic_size_bytes gauge
kqueue_topic_size_bytes{topic="t"} 5.0
# TYPE kqueue_requests_total counter
kqueue_requests_total{api="Fetch"} 32.0
# TYPE kqueue_request_handling_seconds histogram
kqueue_request_handling_seconds_bucket{api="Fetch",le="0.001"} 1.0
kqueue_request_handling_seconds_bucket{api="Fetch",le="0.01"} 2.0
kqueue_request_handling_seconds_bucket{api="Fetch",le="+Inf"} 2.0
kqueue_request_handling_seconds_count{api="Fetch"} 2.0
kqueue_request_handling_seconds_sum{api="Fetch"} 0.004
"""


def histogram(total_s: float, *counts: float) -> Histogram:
    return Histogram(total_s, list(zip((0.001, 0.01, math.inf), counts, strict=True)))


def counters(requests: float, handling: Histogram) -> RequestCounters:
    return RequestCounters("7", {"Fetch": requests}, {"Fetch": handling})


def test_the_text_of_a_broker_is_parsed() -> None:
    parsed = parse_counters(TEXT)
    assert parsed == RequestCounters("7", {"Fetch": 32.0}, {"Fetch": histogram(0.004, 1, 2, 2)})
    assert parse_counters("") == RequestCounters()


@for_each(
    "line",
    [
        'kqueue_requests_total{api="Fetch"',
        'kqueue_requests_total{api="Fetch"} nan',
        'kqueue_requests_total{api="Fetch"} -1',
        'kqueue_requests_total{api="Fetch"} many',
    ],
)
def test_text_of_another_format_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_counters(line)


def test_more_lines_than_a_broker_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_times, "LINES_MAX", 3)
    with pytest.raises(ValueError, match="at most 3"):
        parse_counters(TEXT)


@for_each(
    "counts, share, seconds",
    [
        ((100, 100, 100), 0.5, 0.0005),
        ((0, 100, 100), 0.5, 0.0055),
        ((0, 0, 100), 0.99, 0.01),
        ((98, 99, 100), 0.99, 0.01),
        ((0, 0, 0), 0.99, None),
    ],
)
def test_a_percentile_lies_within_its_bucket(counts: tuple[int, ...], share: float, seconds: float | None) -> None:
    value = histogram(1.0, *counts).percentile_s(share)
    assert value == (seconds if seconds is None else pytest.approx(seconds))
    assert NOTHING.percentile_s(share) is None
    assert NOTHING.mean_s is None


def test_one_reading_has_the_times_since_the_start_and_no_rate() -> None:
    history = RequestHistory()
    assert history.times() == []
    history.add(5.0, counters(32, histogram(0.004, 1, 2, 2)))
    (row,) = history.times()
    assert row == ApiTimes("7", "Fetch", None, 0.002, pytest.approx(0.00982), None, None)


def test_times_are_those_of_the_last_minute() -> None:
    history = RequestHistory()
    for time_s, requests, handling in [
        (0.0, 10, histogram(50.0, 0, 0, 10)),
        (100.0, 20, histogram(50.01, 10, 10, 20)),
        (160.0, 80, histogram(50.31, 70, 70, 80)),
    ]:
        history.add(time_s, counters(requests, handling))
    (row,) = history.times()
    assert (row.requests_per_s, row.handling_mean_s) == (1.0, pytest.approx(0.005))
    history.add(220.0, counters(80, histogram(50.31, 70, 70, 80)))
    assert history.times() == [], "no request in the last minute"


def test_a_broker_that_started_again_counts_from_its_start() -> None:
    history = RequestHistory()
    history.add(0.0, counters(1000, histogram(50.0, 0, 0, 10)))
    history.add(10.0, counters(20, histogram(0.002, 2, 2, 2)))
    (row,) = history.times()
    assert (row.requests_per_s, row.handling_mean_s) == (2.0, 0.001)


@settings(max_examples=100)
@given(st.text(max_size=30))
def test_hostile_text_is_counters_or_a_value_error(text: str) -> None:
    for line in (text, f"kqueue_requests_total{text}", f'kqueue_requests_total{{api="{text}"}} 1'):
        with contextlib.suppress(ValueError):
            parse_counters(line)
