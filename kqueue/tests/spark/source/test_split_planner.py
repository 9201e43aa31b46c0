from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.source.split_planner import OffsetRange, rate_limited, split_ranges
from kqueue.tests.tables import for_each

MiB = 1024 * 1024
LAGS = st.lists(st.one_of(st.integers(0, 10), st.integers(0, 1_000_000)), max_size=12)


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


@given(LAGS, st.integers(1, 2_000_000))
def test_a_limit_is_shared_out(lags: list[int], limit: int) -> None:
    start = {topic_partition: 100 * topic_partition.partition for topic_partition in partitions(len(lags))}
    end = {topic_partition: start[topic_partition] + lag for topic_partition, lag in zip(start, lags, strict=True)}
    result = rate_limited(start, end, limit)
    shares = {topic_partition: result[topic_partition] - start[topic_partition] for topic_partition in result}
    for topic_partition, lag in zip(start, lags, strict=True):
        assert 0 <= shares[topic_partition] <= lag
        assert shares[topic_partition] or not lag, "whoever lags gets something"
    lagging = sum(1 for lag in lags if lag)
    assert sum(shares.values()) <= max(limit, lagging) + lagging
    if sum(lags) <= limit:
        assert result == end


def test_shares_are_in_proportion() -> None:
    (first, second, third) = partitions(3)
    result = rate_limited({first: 0, second: 0, third: 50}, {first: 9_000, second: 1_000, third: 51}, 100)
    assert result == {first: 89, second: 9, third: 51}


def test_limited_end_never_goes_below_the_start() -> None:
    (first, second) = partitions(2)
    assert rate_limited({first: 10, second: 0}, {first: 5, second: 100}, 10) == {first: 5, second: 10}


RANGES = st.lists(st.integers(0, 5_000), max_size=15).map(
    lambda sizes: [OffsetRange("t", number, 7 * number, 7 * number + size) for number, size in enumerate(sizes)]
)


@given(
    RANGES,
    st.sampled_from([None, 1, 3, 40]),
    st.sampled_from([None, 100, 1_500]),
    st.sampled_from([1, 200_000, 64 * MiB]),
)
def test_splits_cover_each_offset_once(
    ranges: list[OffsetRange], splits_min: int | None, rows_max: int | None, split_bytes: int
) -> None:
    result = split_ranges(
        ranges, lambda topic_partition: 100.0, split_bytes=split_bytes, splits_min=splits_min, rows_max=rows_max
    )
    pieces = sorted(piece for candidate in result for piece in candidate)
    for range in ranges:
        mine = [piece for piece in pieces if piece.topic_partition == range.topic_partition]
        assert sum(piece.size for piece in mine) == range.size
        edges = [range.start, *(piece.end for piece in mine)]
        assert [piece.start for piece in mine] == edges[:-1]
    assert all(candidate for candidate in result)
    if rows_max is not None:
        assert all(sum(piece.size for piece in candidate) <= rows_max for candidate in result)
    if splits_min is not None:
        assert len(result) >= min(splits_min, sum(range.size for range in ranges))
    if splits_min is None and rows_max is None:
        assert len(pieces) == sum(1 for range in ranges if range.size), "no partition is cut without a reason"


def test_small_partitions_share_and_large_ones_do_not() -> None:
    ranges = [OffsetRange("t", 0, 0, 10_000_000), *(OffsetRange("t", number, 0, 1_000) for number in range(1, 101))]
    result = split_ranges(ranges, lambda topic_partition: 100.0, split_bytes=64 * MiB)
    assert sorted(len(candidate) for candidate in result) == [1, 100]


def test_shares_are_about_as_large_as_asked() -> None:
    ranges = [OffsetRange("t", number, 0, 1_000) for number in range(64)]
    result = split_ranges(ranges, lambda topic_partition: 1_000.0, split_bytes=8_000_000)
    assert [len(candidate) for candidate in result] == [8] * 8


def test_the_largest_are_cut_for_more_splits() -> None:
    ranges = [OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)]
    result = split_ranges(ranges, lambda topic_partition: 1.0, split_bytes=MiB, splits_min=4)
    assert [one for pieces in result for one in pieces] == [
        OffsetRange("t", 0, 0, 300),
        OffsetRange("t", 0, 300, 600),
        OffsetRange("t", 0, 600, 900),
        OffsetRange("t", 1, 0, 100),
    ]


def test_empty_range_gives_no_splits() -> None:
    assert split_ranges([OffsetRange("t", 0, 5, 5)], lambda topic_partition: 1.0, split_bytes=1, splits_min=3) == []


@for_each("one", [OffsetRange("orders", 3, 10, 25)])
def test_range_has_size_text_and_topic_partition(one: OffsetRange) -> None:
    assert (str(one), one.size, one.topic_partition) == ("orders-3 from 10 to 25", 15, ("orders", 3))
