from __future__ import annotations

import pytest

from kqueue.base.errors import (
    FencedLeaderEpoch,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import Record, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each


def append(partition: Partition, *values: bytes) -> int:
    """Append one batch; returns the end offset after it."""
    batch = build_batch([Record(index, 1_700_000_000_000, None, value) for index, value in enumerate(values)])
    return partition.append(memoryview(batch), read_header(batch)).next_offset


def values(partition: Partition, offset: int = 0, *, read_committed: bool = False) -> list[bytes | None]:
    """All values that a consumer would see from `offset` on."""
    result: list[bytes | None] = []
    while (fetched := partition.read(offset, 1 << 20, read_committed=read_committed).fetched).region is not None:
        data = fetched.region.read()
        result += [
            record.value
            for position, _ in iter_batches(data)
            for record in iter_records(data, position)
            if record.offset >= offset
        ]
        offset = fetched.next_offset
    return result


def test_group_mode_shows_nothing_before_it_is_flushed() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    end = append(partition, b"a", b"b")
    assert (partition.high_watermark, partition.log_end_offset) == (0, 2)
    assert values(partition) == []
    assert not partition.is_committed(end)
    sim.settle()
    assert partition.is_committed(end)
    assert values(partition) == [b"a", b"b"]


def test_fsync_covers_a_turn_and_the_next_one_covers_later_appends() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    for number in range(5):
        append(partition, b"%d" % number)
    sim.broker.scheduler.purgatory.run_ready()
    assert len(sim.jobs.pending) == 1
    for number in range(5, 9):
        append(partition, b"%d" % number)
    sim.broker.scheduler.purgatory.run_ready()
    assert len(sim.jobs.pending) == 1, "one fsync at a time"
    sim.jobs.step()
    assert partition.high_watermark == 5
    while not sim.jobs.pending:  # a few turns, see `flush_gathering`
        assert sim.broker.scheduler.purgatory.run_ready()
    assert len(sim.jobs.pending) == 1
    sim.jobs.step()
    assert partition.high_watermark == 9


@for_each("settings", [{"kqueue.flush": "kafka"}, {"kqueue.storage": "memory"}])
def test_without_group_flush_what_is_appended_is_seen_at_once(settings: dict[str, object]) -> None:
    sim = Simulation(settings)
    partition = sim.topic("orders").partition(0)
    end = append(partition, b"a")
    assert partition.is_committed(end)
    assert values(partition) == [b"a"]


def test_memory_is_never_flushed() -> None:
    sim = Simulation({"kqueue.storage": "memory", "log.flush.interval.messages": 1, "log.segment.bytes": 100})
    partition = sim.topic("orders").partition(0)
    for _ in range(3):
        append(partition, b"a" * 100)
    sim.broker.scheduler.purgatory.run_ready()
    assert not sim.jobs.pending


def test_kafka_mode_flushes_by_count_and_by_time() -> None:
    sim = Simulation({"kqueue.flush": "kafka", "log.flush.interval.messages": 3, "log.flush.interval.ms": 1000})
    partition = sim.topic("orders").partition(0)
    append(partition, b"first")
    sim.settle()
    assert partition.log.flushed_offset == 1, "the first flush makes the folder durable"
    append(partition, b"a", b"b")
    sim.settle()
    assert partition.log.flushed_offset == 1
    append(partition, b"c")
    sim.settle()
    assert partition.log.flushed_offset == 4, "S5.3: by count"
    append(partition, b"d")
    sim.advance(999)
    assert partition.log.flushed_offset == 4
    sim.advance(1)
    assert partition.log.flushed_offset == 5, "S5.3: by time"


def test_kafka_mode_flushes_a_segment_that_was_ended() -> None:
    sim = Simulation({"kqueue.flush": "kafka", "log.segment.bytes": 300})
    partition = sim.topic("orders").partition(0)
    append(partition, b"w" * 20)
    sim.settle()
    append(partition, b"x" * 10)
    sim.settle()
    assert partition.log.flushed_offset == 1
    append(partition, b"y" * 100)
    assert len(partition.log.segments) == 2
    sim.settle()
    assert partition.log.flushed_offset == 3
    append(partition, b"z" * 10)
    sim.settle()
    assert partition.log.flushed_offset == 3


def test_operations_waiting_on_a_partition_are_woken_when_the_high_watermark_moves() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    end = append(partition, b"a")
    responses = list[str]()
    sim.broker.scheduler.purgatory.add(
        DelayedOperation((partition,), None, lambda expired: "seen" if partition.is_committed(end) else None),
        responses.append,
    )
    sim.broker.scheduler.purgatory.run_ready()
    assert responses == []
    sim.settle()
    assert responses == ["seen"]


def test_a_failed_fsync_makes_the_log_read_only_and_fails_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    append(partition, b"a")
    sim.settle()
    end = append(partition, b"b")
    syncs = list[int]()

    def fail(self: object) -> None:
        syncs.append(1)
        raise StorageFailed("I/O error on fsync")

    monkeypatch.setattr(type(partition.log.segments.active.log), "sync", fail)
    responses = list[str]()

    def retry(expired: bool) -> str | None:
        try:
            return "committed" if partition.is_committed(end) else None
        except StorageFailed as error:
            return str(error)

    sim.broker.scheduler.purgatory.add(DelayedOperation((partition,), None, retry), responses.append)
    sim.settle()
    assert len(responses) == 1
    assert "I/O error on fsync" in responses[0]
    with pytest.raises(StorageFailed, match="I/O error on fsync"):
        append(partition, b"c")
    region = partition.read(0, 1000).fetched.region
    assert region is not None
    assert read_header(region.read()).next_offset == 1, "what was flushed before is served"
    assert partition.read(1, 1000).fetched.region is None
    sim.advance(3_600_000)
    assert syncs == [1], "never tried again"
    assert partition.high_watermark == 1


def test_offsets_out_of_range_are_refused_and_the_end_is_empty() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    partition = sim.topic("orders").partition(0)
    append(partition, b"a", b"b")
    assert partition.read(2, 100).fetched.region is None
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange, match="not within 0 and 2"):
            partition.read(offset, 100)


def test_leader_epochs_are_compared() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    sim.broker.replicas.host.sole_replica.begin_epoch(5)
    partition.check_leader_epoch(-1)
    partition.check_leader_epoch(5)
    with pytest.raises(FencedLeaderEpoch):
        partition.check_leader_epoch(4)
    with pytest.raises(UnknownLeaderEpoch):
        partition.check_leader_epoch(6)


def test_batches_carry_the_leader_epoch() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    sim.broker.replicas.host.sole_replica.begin_epoch(3)
    partition = sim.topic("orders").partition(0)
    append(partition, b"a")
    region = partition.read(0, 100).fetched.region
    assert region is not None
    assert read_header(region.read()).leader_epoch == 3
    assert partition.log.epochs.end_offset_for(3, partition.log.end_offset) == (3, 1)


def test_a_deleted_partition_raises_and_wakes_waiting_operations() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    end = append(partition, b"a")
    responses = list[str]()

    def retry(expired: bool) -> str | None:
        try:
            return "committed" if partition.is_committed(end) else None
        except UnknownTopicOrPartition:
            return "deleted"

    sim.broker.scheduler.purgatory.add(DelayedOperation((partition,), None, retry), responses.append)
    sim.broker.topics.delete("orders")
    assert sim.jobs.step(), "the commit, before the flush was even asked for"
    sim.broker.scheduler.purgatory.run_ready()
    assert responses == ["deleted"]
    sim.settle()


def test_flushed_records_and_high_watermark_outlive_a_restart() -> None:
    sim = Simulation()
    partition = sim.topic("orders").partition(0)
    append(partition, b"a", b"b")
    sim.settle()
    sim.stop()
    again = sim.restarted().broker.topics.partition("orders", 0)
    assert again.high_watermark == 2
    assert values(again) == [b"a", b"b"]


def test_kafka_mode_flushes_a_segment_that_was_ended_while_another_was_flushed() -> None:
    sim = Simulation({"kqueue.flush": "kafka", "log.segment.bytes": 300})
    partition = sim.topic("orders").partition(0)
    append(partition, b"w" * 200)
    sim.settle()
    append(partition, b"x" * 200)  # a second segment
    sim.broker.scheduler.purgatory.run_ready()
    assert sim.jobs.pending
    job = sim.jobs.pending.popleft()
    job.run()  # type: ignore[union-attr]
    assert len(partition.log.segments) == 2
    append(partition, b"y" * 200)
    job.finish(None, None)
    append(partition, b"z" * 200)
    sim.settle()
    assert [segment.base for segment in partition.log.segments] == [0, 1, 3]
    assert not partition.log.has_unflushed_segments
    assert partition.log.flushed_offset == partition.log_end_offset


def test_after_a_failed_fsync_in_kafka_mode_what_was_visible_and_may_be_lost_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Simulation({"kqueue.flush": "kafka", "log.flush.interval.messages": 2}, storage=FaultyStorage())
    partition = sim.topic("orders").partition(0)
    append(partition, b"a")
    append(partition, b"b")
    sim.settle()
    assert partition.log.flushed_offset == 2
    sim.storage.fail("sync", lambda path: path.endswith(".log"))  # type: ignore[attr-defined]
    append(partition, b"c")
    append(partition, b"d")
    sim.settle()
    assert (partition.high_watermark, partition.readable_end) == (4, 2)
    assert partition.read(0, 1000).fetched.next_offset == 2
    for offset in (2, 3):
        with pytest.raises(StorageFailed):
            partition.read(offset, 1000)
    assert partition.read(4, 1000).fetched.region is None


def test_records_of_a_read_only_log_can_be_deleted_as_far_as_they_are_flushed() -> None:
    storage = FaultyStorage()
    sim = Simulation({"log.segment.bytes": 300}, storage=storage)
    topic = sim.topic("orders", file_delete_delay_ms="0")
    partition = topic.partition(0)
    for _ in range(4):
        append(partition, b"x" * 200)
        sim.settle()
    storage.fail("sync", lambda path: path.endswith(".log"))
    append(partition, b"y")
    sim.settle()
    storage.mend()
    assert partition.log.health.failure is not None
    with pytest.raises(StorageFailed):
        sim.broker.upkeep.deletion.delete_before(topic, 0, 5)
    assert sim.result(sim.broker.upkeep.deletion.delete_before(topic, 0, -1)) == 4
    sim.advance(10)
    assert len(partition.log.segments) == 1
