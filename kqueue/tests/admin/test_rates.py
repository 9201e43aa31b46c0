from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.admin.group_lags import GroupProgress
from kqueue.admin.log_dirs import LeaderSize
from kqueue.admin.rates import GroupTrend, History, Sample, TopicRate
from kqueue.client import TopicPartition
from kqueue.tests.tables import for_each

ONE, TWO, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def history(*samples: Sample, samples_max: int = 10) -> History:
    added = History(samples_max=samples_max)
    for sample in samples:
        added.add(sample)
    return added


def lagging(time_s: float, lag: int | None, offset: int = 0) -> Sample:
    return Sample(time_s, groups={"g": GroupProgress({ONE: offset}, lag)})


# --- topics


def test_records_per_second_are_the_sum_over_a_topics_partitions() -> None:
    rates = history(Sample(0, ends={ONE: 5, TWO: 0, OTHER: 7}), Sample(2, ends={ONE: 25, TWO: 10, OTHER: 7}))
    assert rates.topics() == {"t": TopicRate(15.0, None), "u": TopicRate(0.0, None)}
    assert rates.total() == TopicRate(15.0, None)


def test_one_sample_has_no_rates() -> None:
    assert history(Sample(0, ends={ONE: 5})).topics() == {}
    assert history().total() == TopicRate(None, None)
    assert history().groups() == {}


def test_a_partition_that_could_not_be_read_is_compared_with_its_last_reading() -> None:
    rates = history(Sample(0, ends={ONE: 0}), Sample(2, ends={}), Sample(4, ends={ONE: 40}))
    assert rates.topics()["t"].records_per_s == 10.0
    assert rates.topic_records("t") == [None, None, 10.0]


def test_a_log_end_that_goes_back_counts_as_nothing_that_was_written() -> None:
    rates = history(Sample(0, ends={ONE: 100, TWO: 0}), Sample(1, ends={ONE: 3, TWO: 5}))
    assert rates.topics()["t"].records_per_s == 5.0
    rates.add(Sample(2, ends={ONE: 7, TWO: 5}))
    assert rates.topics()["t"].records_per_s == 4.0


def test_bytes_that_retention_hides_are_those_of_the_last_growth() -> None:
    sizes = [{ONE: LeaderSize(1, size), TWO: LeaderSize(1, 0)} for size in (100, 300, 50)]
    rates = history(*(Sample(time_s, sizes=size) for time_s, size in enumerate(sizes)))
    assert rates.topic_bytes("t") == [None, 200.0, None]
    assert rates.topics()["t"].bytes_per_s == 200.0
    rates.add(Sample(100, sizes=sizes[2] | {ONE: LeaderSize(1, 40)}))
    assert rates.topics()["t"].bytes_per_s is None, "the last growth is older than the window"


def test_the_size_at_a_new_leader_is_no_growth() -> None:
    rates = history(Sample(0, sizes={ONE: LeaderSize(1, 100)}), Sample(1, sizes={ONE: LeaderSize(2, 900)}))
    assert rates.topics() == {}
    rates.add(Sample(2, sizes={ONE: LeaderSize(2, 910)}))
    assert rates.topics()["t"].bytes_per_s == 10.0


# --- groups


@for_each(
    "lags, growth_per_s, caught_up_s",
    [
        ([100, 90, 80], -10.0, 8.0),
        ([80, 90, 100], 10.0, None),
        ([5, 5, 5], 0.0, None),
        ([20, 10, 0], -10.0, 0.0),
        ([7], None, None),
        ([0], None, 0.0),
    ],
)
def test_the_trend_of_a_lag(lags: list[int], growth_per_s: float | None, caught_up_s: float | None) -> None:
    rates = history(*(lagging(time_s, lag) for time_s, lag in enumerate(lags)))
    trend = rates.groups()["g"]
    assert (trend.lag, trend.growth_per_s, trend.caught_up_s) == (lags[-1], growth_per_s, caught_up_s)


def test_a_trend_is_that_of_the_last_minute() -> None:
    rates = history(lagging(0, 10_000), lagging(100, 50), lagging(110, 40))
    assert rates.groups()["g"].growth_per_s == -1.0
    assert rates.group_lags("g") == [10_000, 50, 40]


def test_a_lag_that_became_unknown_has_no_trend_and_a_reset_is_no_consumption() -> None:
    rates = history(lagging(0, 10, offset=100), lagging(2, 6, offset=104))
    assert rates.groups()["g"] == GroupTrend(6, 2.0, -2.0, 3.0)
    rates.add(lagging(4, None, offset=0))
    assert rates.groups()["g"] == GroupTrend(None, None, None, None)
    assert rates.group_consumption("g") == [None, 2.0, None]


# --- what is kept


def test_what_is_gone_for_all_kept_samples_is_forgotten() -> None:
    rates = history(
        Sample(0, ends={ONE: 0, OTHER: 0}), Sample(1, ends={ONE: 1, OTHER: 1}), lagging(2, 3), samples_max=3
    )
    assert set(rates.topics()) == {"t", "u"}
    for time_s in range(3, 7):
        rates.add(Sample(time_s, ends={ONE: time_s}))
    assert (set(rates.topics()), rates.groups()) == ({"t"}, {})
    assert rates.topic_records("u") == [None, None, None]
    assert rates.times_s == [4, 5, 6]
    assert set(rates._ends._last) == {ONE}


@for_each("time_s", [1.0, 0.5])
def test_a_sample_that_is_not_newer_is_refused(time_s: float) -> None:
    rates = history(Sample(1.0))
    with pytest.raises(ValueError, match="not newer"):
        rates.add(Sample(time_s))


def test_a_history_of_one_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="2 samples"):
        History(samples_max=1)


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 10),
            st.dictionaries(st.sampled_from([ONE, TWO, OTHER]), st.integers(0, 2**53)),
            st.none() | st.integers(0, 2**53),
        ),
        max_size=12,
    )
)
def test_series_have_a_value_for_each_kept_sample_and_rates_are_not_negative(
    rows: list[tuple[float, dict[TopicPartition, int], int | None]],
) -> None:
    rates = History(samples_max=4)
    time_s = 0.0
    for step_s, ends, lag in rows:
        time_s += step_s
        groups = {"g": GroupProgress(ends, lag)}
        rates.add(Sample(time_s, ends, {one: LeaderSize(1, end) for one, end in ends.items()}, groups))
        length = len(rates.times_s)
        assert length <= 4
        for name, rate in rates.topics().items():
            assert all(value is None or (value >= 0 and math.isfinite(value)) for value in rate)
            assert len(rates.topic_records(name)) == len(rates.topic_bytes(name)) == length
        for name, trend in rates.groups().items():
            assert trend.lag == lag
            assert trend.caught_up_s is None or trend.caught_up_s >= 0
            assert len(rates.group_lags(name)) == len(rates.group_consumption(name)) == length
        assert len(rates.total_records()) == length
