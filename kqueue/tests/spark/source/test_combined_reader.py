from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kqueue.client import Client, TopicPartition, TransactionalProducer
from kqueue.records.builder import BatchBuilder
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.offsets import BEGIN
from kqueue.spark.source.combined_reader import CombinedReader
from kqueue.spark.source.micro_batch_planner import MicroBatchPlanner
from kqueue.spark.source.offset_resolver import batch_ranges, splits
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import data_loss_handler
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests.spark.source.logs import BEGIN_MS, options, positions, send
from kqueue.tests.spark.source.tiers import (
    TieredBroker,
    create_tiered,
    drop_local,
    local_start,
    make_tier,
    tiering_broker,
)
from kqueue.tests.waits import eventually
from kqueue.tier.formats.keys import TIER_KEY

T0 = TopicPartition("t", 0)


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[TieredBroker]:
    """30 batches of 5 records, of which the broker has the last ones only."""
    made = TieredBroker(tmp_path, tmp_path / "tier", make_tier(tmp_path / "tier"))
    made.send(30)
    drop_local(made.broker, "t", made.copy().end_offset - 20)
    yield made
    made.broker.stop()


def planned(source_options: SourceOptions) -> list[OffsetRange]:
    """The ranges of all tasks of a batch query."""
    with closing(CombinedReader(source_options)) as reader:
        ranges = batch_ranges(source_options, reader, data_loss_handler(True))
        return sorted(one for split in splits(source_options, ranges, reader) for one in split)


def offsets(source_options: SourceOptions, ranges: list[OffsetRange]) -> list[int]:
    return [offset for _, _, offset in positions(source_options, ranges)]


def test_a_batch_query_reads_each_record_once_from_tier_and_broker(tiered: TieredBroker) -> None:
    given = tiered.options(streaming=False)
    ranges = planned(given)
    border = tiered.copy().end_offset
    assert [(one.start, one.end, one.is_tiered) for one in ranges] == [
        (0, border, True),
        (border, tiered.end, False),
    ]
    assert offsets(given, ranges) == list(range(tiered.end))


def test_segments_that_are_copied_or_deleted_after_the_plan_change_nothing(tiered: TieredBroker) -> None:
    given = tiered.options(streaming=False)
    tiered.send(10)
    ranges = planned(given)
    manifest = tiered.copy()
    assert manifest.end_offset > ranges[0].end
    assert offsets(given, ranges) == list(range(tiered.end))
    # The new segments are read from the tier by the next plan, and by this one from the broker.
    drop_local(tiered.broker, "t", ranges[1].start)
    assert offsets(given, ranges) == list(range(tiered.end))
    manifest.raise_start(manifest.root.leader_epoch, 40)
    while manifest.delete_below_start(manifest.root.leader_epoch):
        pass
    with pytest.raises(DataLost, match="t-0: offsets 0 to 39 were deleted before they were read"):
        offsets(given, ranges)
    going_on = tiered.options(streaming=False, failOnDataLoss="false")
    assert offsets(going_on, ranges) == list(range(40, tiered.end))
    assert offsets(given, planned(given)) == list(range(40, tiered.end))


def test_a_backfill_below_the_tiered_end_fetches_nothing_from_brokers(tiered: TieredBroker) -> None:
    before, border = tiered.fetches(), tiered.copy().end_offset
    given = tiered.options(streaming=False, endingOffsets=f'{{"t":{{"0":{border}}}}}')
    ranges = planned(given)
    unreachable = dataclasses.replace(given, values={**given.values, "kafka.bootstrap.servers": "127.0.0.1:1"})
    assert offsets(given, ranges) == offsets(unreachable, ranges) == list(range(border))
    assert tiered.fetches() == before
    assert offsets(given, [OffsetRange("t", 0, border, tiered.end)]) == list(range(border, tiered.end))
    assert tiered.fetches() > before


def test_tasks_at_the_tail_open_no_tier(tiered: TieredBroker) -> None:
    given = dataclasses.replace(tiered.options(), tier="s3://no-such-bucket/x?option=unknown")
    last = OffsetRange("t", 0, tiered.end - 10, tiered.end)
    assert offsets(given, [last]) == list(range(tiered.end - 10, tiered.end))


def test_where_the_tier_lost_its_end_the_rest_comes_from_brokers(tiered: TieredBroker) -> None:
    given = tiered.options()
    border = tiered.copy().end_offset
    late = OffsetRange("t", 0, border - 5, tiered.end, is_tiered=True)
    assert offsets(given, [late]) == list(range(border - 5, tiered.end))


def test_offsets_and_sizes_come_from_the_tier_first(tiered: TieredBroker) -> None:
    border = tiered.copy().end_offset
    with closing(CombinedReader(tiered.options())) as reader:
        assert reader.earliest([T0]) == {T0: 0}
        assert reader.latest([T0]) == {T0: tiered.end}
        for offset in (0, 37, border - 1, border, tiered.end - 1):
            time = BEGIN_MS + offset
            assert reader.offsets_for_times({T0: time}) == {T0: offset}
        assert reader.offsets_for_times({T0: BEGIN_MS + 10_000_000}) == {T0: None}
        before = tiered.fetches()
        assert 10 < reader.row_bytes(T0, 3) < 100
        assert tiered.fetches() == before
        assert 10 < reader.row_bytes(T0, border) < 100
        assert reader.unread([T0]) == ""


def test_topics_without_a_tier_are_read_from_brokers(tiered: TieredBroker) -> None:
    tiered.broker.create_topic("u", 1)
    send(tiered.broker, "u", 0, 5)
    given = options(tiered.broker, path=tiered.folder / "tier", subscribePattern=".*", streaming=False)
    assert [one.is_tiered for one in planned(given)] == [True, False, False]
    assert len(positions(given, planned(given))) == tiered.end + 5
    with closing(CombinedReader(given)) as reader:
        assert reader.earliest([T0, TopicPartition("u", 0), TopicPartition("gone", 0)]) == {T0: 0, ("u", 0): 0}


def test_a_topic_of_the_same_name_that_was_deleted_is_not_read(tiered: TieredBroker) -> None:
    planned_before = planned(tiered.options(streaming=False))
    with Client(tiered.broker.bootstrap) as client:
        client.delete_topics(["t"])
    tiered.broker.create_topic("t", 1)
    send(tiered.broker, "t", 0, 5)
    given = tiered.options(streaming=False)
    assert [(one.start, one.end, one.is_tiered) for one in planned(given)] == [(0, 5, False)]
    with pytest.raises(DataLost, match="^t-0 from 125 to 150 was to be read, but t-0 ends at 5 now"):
        offsets(given, planned_before)


def test_committed_readers_read_transactions_that_cross_the_border(tiered: TieredBroker) -> None:
    given = {"streaming": False, "kafka__isolation__level": "read_committed"}
    first, expected, unstable = tiered.end, list(range(tiered.end)), 0
    with Client(tiered.broker.bootstrap) as client:
        for number in range(6):
            producer = client.transactions.init("id", 60_000)
            client.transactions.add_partitions(producer, [T0])
            for sequence in range(4):
                send_transactional(client, producer, sequence)
            client.transactions.end(producer, committed=number % 2 == 1)
            tiered.end += 21
            if number % 2 == 1:
                expected += range(tiered.end - 21, tiered.end - 1)
            manifest, ranges = tiered.copy(), planned(tiered.options(**given))
            assert ranges[0].is_tiered
            assert not ranges[-1].is_tiered
            unstable += ranges[0].end < manifest.end_offset
            assert offsets(tiered.options(**given), ranges) == expected
            last = [OffsetRange("t", 0, first, tiered.end)]
            assert offsets(options(tiered.broker, subscribe="t", **given), last) == expected[first:]
    assert unstable  # a transaction was open where the tier ended


def send_transactional(client: Client, producer: TransactionalProducer, number: int) -> None:
    """Append the batch of this number to a transaction."""
    builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=5 * number, transactional=True)
    for _ in range(5):
        builder.append(BEGIN_MS, None, b"x" * 10)
    client.produce({T0: bytes(builder.build())}, transactional_id=producer.transactional_id)


def test_a_checkpoint_goes_on_with_and_without_the_tier(tiered: TieredBroker) -> None:
    border = tiered.copy().end_offset
    brokers_only = options(tiered.broker, subscribe="t", maxOffsetsPerTrigger=40)
    both = tiered.options(startingOffsets="earliest", maxOffsetsPerTrigger=40)
    tier_only = options(path=tiered.folder / "tier", subscribe="t")
    with closing(MicroBatchPlanner(both)) as planner:
        start = planner.initial()
        first = planner.latest(start, 40)
        assert offsets(both, [one for split in planner.splits(start, first) for one in split]) == list(range(40))
        last = planner.latest(first, None)
    assert BEGIN not in first or first[BEGIN] == start
    with closing(MicroBatchPlanner(brokers_only)) as planner:
        at_border = {**first, "t": {"0": border}}
        assert planner.latest(at_border, None) == last
        assert offsets(brokers_only, planner.ranges(at_border, last)) == list(range(border, tiered.end))
    with closing(MicroBatchPlanner(tier_only)) as planner:
        assert planner.latest(last, None) == last  # the tier is behind, and nothing is lost
        upto = planner.latest(first, None)
        assert upto["t"] == {"0": border}
        assert offsets(tier_only, planner.ranges(first, upto)) == list(range(40, border))


def test_a_group_shows_how_far_a_query_is(tiered: TieredBroker) -> None:
    with closing(MicroBatchPlanner(tiered.options(groupId="g"))) as planner:
        planner.done({"t": {"0": 7}})
        assert planner._reader.client is not None
        assert planner._reader.client.committed("g", [T0])[T0].offset == 7


def test_a_data_folder_beside_brokers_is_refused(tiered: TieredBroker) -> None:
    with pytest.raises(OptionError, match=r"two ways to the data.* has no kqueue-tier\.json"):
        options(tiered.broker, path=tiered.folder / "data", subscribe="t")


@pytest.mark.long
def test_each_record_is_read_once_while_a_broker_copies_and_deletes(tmp_path: Path) -> None:
    with tiering_broker(tmp_path / "data", (tmp_path / "tier").as_uri()) as broker:
        create_tiered(broker, "t")
        eventually(lambda: (tmp_path / "tier" / TIER_KEY).exists())
        given = options(broker, path=tmp_path / "tier", subscribe="t", streaming=False)
        reads_of_tier = 0
        for number in range(25):
            for _ in range(4):
                send(broker, "t", 0, 5)
            ranges = planned(given)
            reads_of_tier += ranges[0].is_tiered
            send(broker, "t", 0, 5)
            assert offsets(given, ranges) == list(range(25 * number + 20))
        assert reads_of_tier > 10
        assert local_start(broker, "t") > 0
        with closing(CombinedReader(given)) as reader:
            assert reader.earliest([T0]) == {T0: 0}
