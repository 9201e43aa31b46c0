from __future__ import annotations

from kqueue.admin.log_dirs import TopicSize
from kqueue.client import TopicPartition
from kqueue.console.history.behind import Since
from kqueue.console.history.broker_metrics import BrokerLoad
from kqueue.console.history.cluster_history import CLUSTER_VALUES, ClusterHistory, LatestLoad
from kqueue.console.history.series import Point
from kqueue.tests.console.history.samples import START_MS, snapshot

STEP_MS = 10_000
ZERO = TopicPartition("orders", 0)


def known(points: list[Point]) -> list[float]:
    return [point.value for point in points if point.value is not None]


def recorded(*samples: tuple[int, int | None]) -> ClusterHistory:
    """Return the history after samples of a topic and a group: log end, committed offset."""
    history = ClusterHistory(STEP_MS)
    for number, (end, offset) in enumerate(samples):
        groups = {"billing": None if offset is None else {ZERO: offset}}
        sizes = {"orders": TopicSize(end * 10, end * 20)}
        history.record(START_MS + number * STEP_MS, snapshot(number * 10.0, {ZERO: end}, groups, sizes))
    return history


def test_rates_sizes_and_lags_are_recorded() -> None:
    history = recorded((100, 100), (200, 150), (400, 150))
    assert known(history.topic_records("orders")) == [10, 20]
    assert known(history.topic_sizes("orders")) == [1000, 2000, 4000]
    assert known(history.group_lags("billing")) == known(history.partition_lags("billing", ZERO)) == [0, 50, 250]
    assert known(history.cluster("records")) == [10, 20]
    assert known(history.cluster("lag")) == [0, 50, 250]
    assert known(history.cluster("under-replicated")) == [2, 2, 2]
    assert known(history.topic_bytes("orders")) == []  # no broker told a size by partition
    assert (history.busiest_topics(), history.busiest_groups()) == (["orders"], ["billing"])
    assert all(history.cluster(name, 2) for name in CLUSTER_VALUES if name != "bytes")


def test_the_latest_sample_says_which_group_is_behind_and_since_when() -> None:
    history = recorded((100, 100), (200, 100), (400, 100))
    group = history.latest.groups["billing"]
    assert (group.listing.state, group.trend.lag, group.since) == ("Empty", 300, Since(START_MS + STEP_MS))
    assert group.trend.growth_per_s
    assert group.trend.growth_per_s > 0
    assert history.behind_since("billing") == history.behind_since("billing", ZERO) == group.since
    assert history.latest.topics["orders"].records_per_s == 20


def test_a_group_that_was_not_read_has_a_gap_and_stays_behind() -> None:
    history = recorded((100, 100), (200, 100), (200, 100), (400, None))
    group = history.latest.groups["billing"]
    assert (group.trend.lag, group.since) == (None, Since(START_MS + STEP_MS))
    assert [point.value for point in history.group_lags("billing")[-4:]] == [0, 100, 100, None]


def test_a_sample_that_failed_is_a_gap_and_keeps_the_latest_state() -> None:
    history = recorded((100, 100), (200, 100))
    history.record_failure(START_MS + 2 * STEP_MS, "no broker answers")
    assert history.latest.problems == ("no broker answers",)
    assert history.latest.time_ms == START_MS + STEP_MS
    assert "billing" in history.latest.groups
    assert history.topic_records("orders")[-1].value is None
    assert history.group_lags("billing")[-1].value is None


def test_metrics_of_several_brokers_are_kept_apart() -> None:
    history = ClusterHistory(STEP_MS)
    loads = [
        LatestLoad("http://a/metrics", BrokerLoad([], {}, {"requests": 5.0, "memory": None})),
        LatestLoad("http://b/metrics", problem="can't be read"),
    ]
    history.record_metrics(START_MS, loads)
    assert known(history.metrics("http://a/metrics", "requests")) == [5]
    assert history.metrics("http://a/metrics", "memory") == history.metrics("http://b/metrics", "requests") == []
    assert history.loads == loads


def test_a_history_that_has_begun_just_now_is_empty() -> None:
    history = ClusterHistory(STEP_MS)
    assert (history.latest.time_ms, history.latest.groups, history.loads) == (None, {}, [])
    assert history.group_lags("billing") == history.cluster("records") == []
    assert history.behind_since("billing") is None
    history.record_failure(START_MS, "no broker answers")
    assert (history.latest.time_ms, history.latest.problems) == (None, ("no broker answers",))
