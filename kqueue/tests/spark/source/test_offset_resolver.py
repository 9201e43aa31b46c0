from __future__ import annotations

from collections.abc import Callable

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.client import Client
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.offset_resolver import batch_ranges, splits
from kqueue.spark.source.record_reader import data_loss_handler
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send


@pytest.fixture
def log(broker: kqueue.Broker) -> kqueue.Broker:
    """t-0 has 5 to 14, t-1 nothing."""
    broker.create_topic("t", 2)
    send(broker, "t", 0, 5, time_ms=BEGIN_MS - 1_000)
    send(broker, "t", 0, 10)
    with Client(broker.bootstrap) as client:
        client.delete_records({("t", 0): 5})
    return broker


@pytest.fixture
def ranges(log: kqueue.Broker) -> Callable[..., list[OffsetRange]]:
    def find(**given: object) -> list[OffsetRange]:
        source_options = options(log, streaming=False, subscribe="t", **given)
        reader = BrokerReader(source_options)
        try:
            return [
                one
                for one in batch_ranges(source_options, reader, data_loss_handler(source_options.fail_on_data_loss))
                if one.size
            ]
        finally:
            reader.close()

    return find


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ({}, 5, 15),
        ({"startingOffsets": '{"t":{"0":7,"1":-2}}'}, 7, 15),
        ({"endingOffsets": '{"t":{"0":7,"1":-1}}'}, 5, 7),
        ({"startingTimestamp": BEGIN_MS + 4, "startingOffsetsByTimestampStrategy": "latest"}, 9, 15),
        ({"endingTimestamp": BEGIN_MS + 4}, 5, 9),
        ({"endingTimestamp": BEGIN_MS + 400}, 5, 15),
        ({"endingOffsetsByTimestamp": f'{{"t":{{"0":{BEGIN_MS + 2},"1":0}}}}'}, 5, 7),
        ({"startingOffsets": '{"t":{"0":1,"1":-2}}', "failOnDataLoss": "false"}, 5, 15),
    ],
)
def test_range_of_a_batch_follows_from_the_options(
    ranges: Callable[..., list[OffsetRange]], given: dict[str, object], start: int, end: int
) -> None:
    (result,) = ranges(**given)
    assert result == OffsetRange("t", 0, start, end, result.topic_id)
    assert len(result.topic_id) == 22


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"startingOffsets": '{"t":{"0":7}}'}, OptionError, "startingOffsets leaves out t-1"),
        (
            {"startingOffsets": '{"t":{"0":7,"1":0,"2":0}}'},
            OptionError,
            "startingOffsets names t-2, which is not there",
        ),
        ({"startingOffsets": '{"t":{"0":16,"1":0}}'}, OptionError, "names offset 16 of t-0, whose log ends at 15"),
        ({"startingOffsets": '{"t":{"0":4,"1":0}}'}, DataLost, "names offset 4 of t-0, whose log begins at 5"),
        (
            {"endingOffsets": '{"t":{"0":16,"1":0}}'},
            OptionError,
            "endingOffsets names offset 16 of t-0, whose log ends at 15",
        ),
        ({"startingTimestamp": BEGIN_MS + 4}, OptionError, "startingTimestamp: t-1 has no record from"),
        (
            {"startingOffsets": '{"t":{"0":9,"1":0}}', "endingOffsets": '{"t":{"0":8,"1":0}}'},
            OptionError,
            "contradict each other: t-0 would begin at 9 and end at 8",
        ),
    ],
)
def test_unusable_offsets_are_refused_with_the_reason(
    ranges: Callable[..., list[OffsetRange]], given: dict[str, object], kind: type[KqueueError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        ranges(**given)
    assert words in str(caught.value)


def test_split_size_follows_from_sampled_row_bytes(log: kqueue.Broker) -> None:
    source_options = options(log, streaming=False, subscribe="t", splitBytes=1)
    reader = BrokerReader(source_options)
    try:
        assert splits(
            source_options, [OffsetRange("t", 0, 5, 9), OffsetRange("t", 0, 9, 9), OffsetRange("t", 0, 9, 12)], reader
        ) == [(OffsetRange("t", 0, 5, 9),), (OffsetRange("t", 0, 9, 12),)]
        assert splits(
            options(log, streaming=False, subscribe="t"),
            [OffsetRange("t", 0, 5, 9), OffsetRange("t", 0, 9, 12)],
            reader,
        ) == [(OffsetRange("t", 0, 5, 9), OffsetRange("t", 0, 9, 12))]
    finally:
        reader.close()
