from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.offsets import BEGIN, IDS, JsonObject
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests.spark.source.logs import options, positions, send


class Make(Protocol):
    """Makes a tracker, of topic t where nothing else is said."""

    def __call__(self, *, clock: Callable[[], float] = time.monotonic, **given: object) -> MicroBatchPlanner: ...


@pytest.fixture
def tracker(broker: kqueue.Broker) -> Iterator[Make]:
    planners: list[MicroBatchPlanner] = []

    def make(*, clock: Callable[[], float] = time.monotonic, **given: object) -> MicroBatchPlanner:
        topics = {} if "subscribePattern" in given else {"subscribe": "t"}
        planners.append(MicroBatchPlanner(options(broker, **topics | given), clock=clock, pause=lambda seconds: None))
        return planners[-1]

    yield make
    for one in planners:
        one.close()


def without_ids(offsets: JsonObject) -> JsonObject:
    """The same without the topics' ids."""
    return {name: without_ids(value) if name == BEGIN else value for name, value in offsets.items() if name != IDS}


def bounds(query: MicroBatchPlanner, start: JsonObject, end: JsonObject) -> list[OffsetRange]:
    """The ranges of a batch, without the topics' ids."""
    return [one._replace(topic_id="") for one in query.ranges(start, end)]


def drop(broker: kqueue.Broker, before: int) -> None:
    with Client(broker.bootstrap) as client:
        client.delete_records({("t", 0): before})


def delete_topic(broker: kqueue.Broker, name: str) -> None:
    async def delete() -> None:
        server = broker._server
        await server.result(server.broker.topics.delete(name))

    broker._call(delete)


def test_each_batch_begins_where_the_last_one_ended(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t", 2)
    send(broker, "t", 0, 10)
    query = tracker(startingOffsets="earliest")
    start = query.initial()
    assert without_ids(start) == {"t": {"0": 0, "1": 0}}
    end = query.latest(start, None)
    assert without_ids(end) == {"t": {"0": 10, "1": 0}, BEGIN: without_ids(start)}
    assert bounds(query, start, end) == [OffsetRange("t", 0, 0, 10)]
    assert query.latest(end, None) is end, "nothing new: the very same"
    send(broker, "t", 1, 3)
    then = query.latest(end, None)
    assert without_ids(then) == {"t": {"0": 10, "1": 3}}
    assert bounds(query, end, then) == [OffsetRange("t", 1, 0, 3)]
    assert query.report() == without_ids(then)


def test_the_first_batch_remembers_where_it_began(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    first = tracker()
    start = first.initial()
    pinned = first.latest(start, None)
    assert without_ids(pinned) == {"t": {"0": 5}, BEGIN: {"t": {"0": 5}}}, "it comes at once, though it is empty"
    assert bounds(first, start, pinned) == []
    send(broker, "t", 0, 5)
    after_crash = tracker()
    assert without_ids(after_crash.initial()) == {"t": {"0": 10}}
    assert bounds(after_crash, {"t": {"0": 10}}, pinned) == []
    end = after_crash.latest(pinned, None)
    assert bounds(after_crash, pinned, end) == [OffsetRange("t", 0, 5, 10)]
    # stopped before its first batch with records was done
    late = {"t": {"0": 10}, BEGIN: {"t": {"0": 5}}}
    assert bounds(tracker(), {"t": {"0": 10}}, late) == [OffsetRange("t", 0, 5, 10)]


def test_fixed_starting_offsets_need_no_empty_batch(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    query = tracker(startingOffsets="earliest")
    start = query.initial()
    assert query.latest(start, None) is start


def test_offset_limit_is_divided_in_proportion_to_the_unread(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t", 3)
    send(broker, "t", 0, 90)
    send(broker, "t", 1, 10)
    query = tracker(startingOffsets="earliest")
    end = query.latest(query.initial(), 20)
    assert end["t"] == {"0": 18, "1": 2, "2": 0}
    assert without_ids(query.latest(end, 20)) == {"t": {"0": 36, "1": 4, "2": 0}}
    assert without_ids(query.latest(end, None)) == {"t": {"0": 90, "1": 10, "2": 0}}


def test_batch_waits_for_enough_offsets_up_to_the_longest_delay(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    now = [0.0]
    query = tracker(clock=lambda: now[0], startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="1m")
    start = query.latest({"t": {"0": 0}}, None)
    send(broker, "t", 0, 9)
    assert query.latest(start, None) is start
    now[0] = 59
    assert query.latest(start, None) is start
    now[0] = 61
    end = query.latest(start, None)
    assert without_ids(end) == {"t": {"0": 9}}
    send(broker, "t", 0, 10)
    assert without_ids(query.latest(end, None)) == {"t": {"0": 19}}


def test_restarted_query_does_not_wait_for_enough_offsets(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 3)
    query = tracker(minOffsetsPerTrigger=10)
    end = query.latest({"t": {"0": 0}}, None)
    assert without_ids(end) == {"t": {"0": 3}}
    send(broker, "t", 0, 3)
    assert query.latest(end, None) is end


def test_available_now_ends_at_the_offsets_of_its_start(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t", 2)
    send(broker, "t", 0, 10)
    query = tracker(subscribePattern="t|u")
    query.prepare_available_now()
    send(broker, "t", 0, 10)
    broker.create_topic("u")
    send(broker, "u", 0, 1)
    at = {"t": {"0": 0, "1": 0}}
    seen = []
    while (then := query.latest(at, 4)) is not at:
        seen.append(then["t"]["0"])
        assert "u" not in then
        at = then
    assert seen == [4, 8, 10]


def test_partitions_and_topics_that_join_begin_at_their_beginning(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t1")
    send(broker, "t1", 0, 5)
    query = tracker(subscribePattern="^t")
    end = query.latest(query.initial(), None)
    broker.create_topic("t2")
    broker.create_topic("other")
    send(broker, "t2", 0, 3)
    then = query.latest(end, None)
    assert without_ids(then) == {"t1": {"0": 5}, "t2": {"0": 3}}
    assert bounds(query, end, then) == [OffsetRange("t2", 0, 0, 3)]


def test_a_pattern_may_match_nothing_yet(broker: kqueue.Broker, tracker: Make) -> None:
    query = tracker(subscribePattern="^t")
    start = query.initial()
    assert without_ids(start) == {}
    pinned = query.latest(start, None)
    broker.create_topic("t1")
    send(broker, "t1", 0, 3)
    assert bounds(query, pinned, query.latest(pinned, None)) == [OffsetRange("t1", 0, 0, 3)]


# --- what is gone


def test_deleted_records_of_a_batch_are_reported_or_skipped(
    broker: kqueue.Broker, tracker: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    send(broker, "t", 0, 5)
    drop(broker, 5)
    start, end = {"t": {"0": 2}}, {"t": {"0": 10}}
    with pytest.raises(
        DataLost,
        match=r"^t-0: offsets 2 to 4 were deleted before they were read; its log begins at 5; set failOnDataLoss",
    ):
        bounds(tracker(), start, end)
    with caplog.at_level(logging.WARNING, "kqueue.spark"):
        assert bounds(tracker(failOnDataLoss="false"), start, end) == [OffsetRange("t", 0, 5, 10)]
    assert "offsets 2 to 4" in caplog.text
    assert bounds(tracker(failOnDataLoss="false"), start, {"t": {"0": 4}}) == []


def test_deleted_topic_is_reported_or_skipped(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    broker.create_topic("u")
    send(broker, "t", 0, 5)
    send(broker, "u", 0, 5)
    start = {"t": {"0": 5}, "u": {"0": 1}}
    delete_topic(broker, "t")
    with pytest.raises(DataLost, match="^t-0 is gone"):
        tracker(subscribe="t,u").latest(start, None)
    going_on = tracker(subscribe="t,u", failOnDataLoss="false")
    end = going_on.latest(start, None)
    assert without_ids(end) == {"u": {"0": 5}}
    assert bounds(going_on, start, end) == [OffsetRange("u", 0, 1, 5)]
    with pytest.raises(DataLost, match="^t-0 is gone, and was to be read up to 9"):
        tracker(subscribe="t,u").ranges(start, {"t": {"0": 9}, "u": {"0": 5}})


def test_topic_recreated_with_fewer_records_is_reported_or_read_from_its_start(
    broker: kqueue.Broker, tracker: Make
) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 3)
    start = {"t": {"0": 20}}
    with pytest.raises(DataLost, match="^t-0 ends at 3 now, and had been read up to 20"):
        tracker().latest(start, None)
    going_on = tracker(failOnDataLoss="false")
    end = going_on.latest(start, None)
    assert bounds(going_on, start, end) == [OffsetRange("t", 0, 0, 3)]
    send(broker, "t", 0, 2)
    assert bounds(going_on, end, going_on.latest(end, None)) == [OffsetRange("t", 0, 3, 5)]


@pytest.mark.parametrize("count", [5, 8])
def test_topic_recreated_with_as_many_records_is_recognized_by_its_id(
    broker: kqueue.Broker, tracker: Make, count: int
) -> None:
    """Its offsets say nothing, its id does."""
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    first = tracker(startingOffsets="earliest")
    start = first.latest(first.initial(), None)
    next_one = {**start, "t": {"0": 7}}
    delete_topic(broker, "t")
    broker.create_topic("t")
    send(broker, "t", 0, count)
    with pytest.raises(
        DataLost, match="^topic 't' was deleted and recreated; some of the old one may not have been read;"
    ):
        tracker().latest(start, None)
    with pytest.raises(DataLost, match="^t-0 was to be read up to 7, but topic 't' was deleted and recreated"):
        tracker().ranges(start, next_one)
    going_on = tracker(failOnDataLoss="false")
    assert going_on.ranges(start, next_one) == [], "the old one's end says nothing of the new one"
    end = going_on.latest(next_one, None)
    assert without_ids(end) == {"t": {"0": count}}
    assert end[IDS] != start[IDS]
    (result,) = going_on.ranges(next_one, end)
    assert result == OffsetRange("t", 0, 0, count, end[IDS]["t"])
    assert len(positions(going_on.options, [result])) == count
    assert going_on.latest(end, None) is end


def test_topic_recreated_before_its_task_runs_is_reported_or_skipped(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    query = tracker(startingOffsets="earliest")
    start = query.initial()
    planned = query.ranges(start, query.latest(start, None))
    delete_topic(broker, "t")
    broker.create_topic("t")
    send(broker, "t", 0, 9)
    with pytest.raises(DataLost, match="^t-0 from 0 to 5 was to be read, but topic 't' was deleted and recreated"):
        positions(query.options, planned)
    assert positions(tracker(failOnDataLoss="false").options, planned) == []


def test_checkpoint_without_topic_ids_is_continued(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    old = {"t": {"0": 5}}
    query = tracker()
    assert query.latest(old, None) is old
    send(broker, "t", 0, 2)
    end = query.latest(old, None)
    assert without_ids(end) == {"t": {"0": 7}}
    assert list(end[IDS]) == ["t"]
    assert bounds(query, old, end) == [OffsetRange("t", 0, 5, 7)]


def test_unknown_topic_is_refused_with_a_similar_name(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("orders")
    with pytest.raises(OptionError, match="there is no topic 'order' on 127.0.0.1:[0-9]+; did you mean 'orders'"):
        tracker(subscribe="order").initial()


# --- groups


def test_a_group_shows_how_far_it_is(broker: kqueue.Broker, tracker: Make, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("t")
    send(broker, "t", 0, 5)
    query = tracker(startingOffsets="earliest", groupId="g")
    end = query.latest(query.initial(), 3)
    query.done(end)
    with Client(broker.bootstrap) as client:
        assert client.committed("g")[TopicPartition("t", 0)].offset == 3
    query.done({"t": {"0": 5}})
    with Client(broker.bootstrap) as client:
        assert client.committed("g")[TopicPartition("t", 0)].offset == 5
    with caplog.at_level(logging.WARNING, "kqueue.spark"):
        query.done({"nowhere": {"0": 5}})
    assert "group 'g' does not show how far the query is" in caplog.text


def test_each_record_is_read_once_over_many_batches(broker: kqueue.Broker, tracker: Make) -> None:
    broker.create_topic("t", 3)
    query = tracker(startingOffsets="earliest", maxRecordsPerPartition=7)
    at = query.initial()
    result = []
    for number in range(6):
        send(broker, "t", number % 3, 10 + number, codec="gzip")
        then = query.latest(at, 8)
        for split in query.splits(at, then):
            assert sum(one.size for one in split) <= 7
            result += positions(query.options, split)
        at = then
    while (then := query.latest(at, 8)) is not at:
        result += [
            topic_partition for split in query.splits(at, then) for topic_partition in positions(query.options, split)
        ]
        at = then
    assert sorted(result) == [("t", number, offset) for number in range(3) for offset in range(23 + 2 * number)]
