"""Retention: a broker drops old segments while time passes; rounds over many partitions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kqueue.base.errors import OffsetOutOfRange, UnknownTopicOrPartition
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.records.batch import (
    HEADER,
    Record,
    read_header,
    set_max_timestamp,
)
from kqueue.records.builder import build_batch
from kqueue.storage import LocalStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import elect, replicate, started
from kqueue.tests.broker.upkeep.cleanup_broker import (
    CHECK_MS,
    SEGMENT,
    SETTINGS,
    bases,
    broker_on,
    check_restart,
    fill,
    names,
    offsets,
)
from kqueue.tests.tables import for_each


@for_each("storage", ["local", "memory", "faulty"])
def test_old_segments_go_by_time_and_in_the_end_the_active_one(storage: str) -> None:
    """S5.1"""
    sim = broker_on(storage)
    topic = sim.topic("t", retention_ms="60000", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 10, every_ms=10_000)
    assert (bases(partition), offsets(partition)) == ([4, 6, 8], list(range(4, 10)))
    sim.advance(20_000)
    assert offsets(partition) == list(range(6, 10))
    if storage != "memory":
        check_restart(sim, "t")
    else:
        sim.advance(60_000)
        assert (offsets(partition), partition.log_start_offset, partition.log_end_offset) == ([], 10, 10)


def test_expiry_of_all_records_leaves_an_empty_segment_that_accepts_appends() -> None:
    """S5.1: the active segment is rolled when all of it has expired."""
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", retention_ms="60000", **SEGMENT).partition(0)
    fill(sim, partition, 5)
    sim.advance(60_000 - 1)
    assert len(offsets(partition)) == 5
    sim.advance(CHECK_MS + 1)
    assert (bases(partition), partition.log_start_offset, partition.log_end_offset) == ([5], 5, 5)
    sim.advance(CHECK_MS * 5)
    assert bases(partition) == [5], "an empty segment is left alone"
    fill(sim, partition, 1)
    assert offsets(partition) == [5]
    sim = check_restart(sim, "t")
    assert sim.broker.topics.partition("t", 0).log_end_offset == 6


def test_size_retention_never_leaves_less_than_the_limit() -> None:
    """S5.1"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="1000", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 20)
    sim.advance(CHECK_MS)
    log = partition.log
    assert log.segments.size >= 1000 > log.segments.size - log.segments[0].size
    assert partition.log_start_offset == bases(partition)[0] > 0
    check_restart(sim, "t")


def test_files_wait_under_their_deleted_names_and_readers_are_undisturbed() -> None:
    """S5.1: file.delete.delay.ms"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="0", file_delete_delay_ms="5000", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 6)
    fetched = partition.read_now(0, 1 << 20)
    before = fetched.read()
    sim.advance(CHECK_MS)
    assert names(sim, topic, suffix=".log") == ["00000000000000000006.log"]
    assert len(names(sim, topic, suffix=".log.deleted")) == 3
    with pytest.raises(OffsetOutOfRange):
        partition.read(0, 100)
    sim.advance(5000)
    assert names(sim, topic, suffix=".deleted") == []
    assert fetched.read() == before
    assert sim.logs._folders.of(("t", 0)).log_starts == {("t", 0): 6}  # type: ignore[union-attr]


def test_a_topic_deleted_during_a_round_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="0", **SEGMENT)
    fill(sim, topic.partition(0), 6)
    partition = topic.partition(0)
    sim.broker.upkeep.cleanup.retain(partition)
    sim.broker.topics.delete("t")
    sim.settle()
    again = sim.topic("t", **SEGMENT)
    fill(sim, again.partition(0), 6)
    sim.advance(120_000)
    assert len(names(sim, again, suffix=".log")) == 3
    assert offsets(again.partition(0)) == list(range(6))
    with pytest.raises(UnknownTopicOrPartition):
        partition.log  # noqa: B018
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_logs_not_opened_since_the_start_expire_too() -> None:
    """S5.1"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", 3, retention_ms="60000", **SEGMENT)
    for partition in topic.partitions:
        fill(sim, partition, 4)
    sim.stop()
    sim = sim.restarted()
    topic = sim.broker.topics.get("t")
    assert not any(partition.is_open for partition in topic.partitions)
    sim.advance(120_000)
    assert [partition.log_start_offset for partition in topic.partitions] == [4, 4, 4]


def test_a_partition_that_can_not_be_opened_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    sim = Simulation(SETTINGS, storage=storage)
    for name in ("a", "b"):
        fill(sim, sim.topic(name, retention_ms="60000", **SEGMENT).partition(0), 4)
    bad = sim.broker.topics.partition("a", 0)
    bad.log.abandon()
    sim.advance(200_000)
    assert bad.log.start_offset == 0
    assert sim.broker.topics.partition("b", 0).log_start_offset == 4


def test_files_removed_from_outside_do_not_stop_other_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation(SETTINGS, storage=LocalStorage(tmp_path))
    for name in ("a", "b"):
        fill(sim, sim.topic(name, cleanup_policy="compact,delete", retention_ms="60000", **SEGMENT).partition(0), 4)
    sim.stop()
    sim = sim.restarted()
    assert sim.broker.topics.partition("a", 0).log.start_offset == 0
    for name, suffix in (("a", "log"), ("b", "timeindex")):  # an index is a hint, the log itself is not
        for file in (tmp_path / f"{name}-0").glob(f"*.{suffix}"):
            file.unlink()
    sim.advance(200_000)
    assert sim.broker.topics.partition("a", 0).log_start_offset == 0
    assert sim.broker.topics.partition("b", 0).log_start_offset == 4
    assert sum("a-0: can't be cleaned" in record.message for record in caplog.records) == 1


def test_a_round_over_many_partitions_takes_turns_and_none_overlaps_it() -> None:
    sim = Simulation(SETTINGS)
    partitions = sim.topic("t", partitions=120, retention_ms="1000", **SEGMENT).partitions
    for partition in partitions:
        fill(sim, partition, 1)
    seen: list[int] = []
    retain = sim.broker.upkeep.cleanup.retain

    def note(partition: Partition) -> None:
        seen.append(partition.index)
        sim.clock.advance(0.01)  # as time goes by itself: what is put off to now is for the next turn
        retain(partition)

    sim.broker.upkeep.cleanup.retain = note  # type: ignore[method-assign]
    sim.clock.advance(CHECK_MS)
    for expected in (50, 100):
        sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
        assert len(seen) == expected
        sim.broker.upkeep.cleanup._start_round()
    sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
    assert seen == list(range(120))


# --- records without a time


def put_without_time(sim: Simulation, topic: Topic, claimed: int) -> None:
    batch = build_batch([Record(0, -1, b"k", b"." * 200)])
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(max_timestamp=claimed))
    set_max_timestamp(batch, 0, claimed)
    topic.appender.append(topic.partition(0), memoryview(batch), now_ms=sim.clock.wall_ms(), produce_version=9)
    sim.settle()


@for_each("claimed", [-1, 0])
@for_each("restarts", [False, True])
def test_records_without_a_time_stay_for_retention_ms_after_they_were_written(claimed: int, restarts: bool) -> None:
    """librdkafka writes max timestamp 0 for them, and Kafka ages such a segment by its file."""
    clock = ManualClock()
    sim = Simulation(SETTINGS, storage=FaultyStorage(clock=clock), clock=clock)
    topic = sim.topic("t", retention_ms="100000", **SEGMENT)
    for _ in range(4):
        put_without_time(sim, topic, claimed)
    sim.advance(4 * CHECK_MS)
    if restarts:
        sim.stop()
        sim = sim.restarted()
        topic = sim.broker.topics.get("t")
    sim.advance(4 * CHECK_MS)
    assert offsets(topic.partition(0)) == [0, 1, 2, 3]
    sim.advance(7 * CHECK_MS)
    assert offsets(topic.partition(0)) == []


# --- topics with a remote tier


def with_tier(topic: Topic, tiered_end: int, **own: object) -> None:
    """Let a topic have a remote tier, which has all below an offset."""
    topic.config.overrides.update({"remote.storage.enable": True, **own})
    log = topic.partition(0).log
    log.config = dataclasses.replace(log.config, tiered=True)
    log.tiered_end = tiered_end


def test_local_retention_drops_what_the_tier_has_and_leaves_the_log_start() -> None:
    sim = Simulation(SETTINGS, storage=FaultyStorage())
    topic = sim.topic("t", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 10)
    with_tier(topic, 5, **{"local.retention.bytes": 0})
    sim.advance(CHECK_MS)
    assert bases(partition) == [4, 6, 8, 10], "rolled, to be copied; but not in the tier yet"
    assert (partition.log_start_offset, partition.log.local_start_offset) == (0, 4)
    partition.log.tiered_end = 10
    sim.advance(CHECK_MS)
    assert bases(partition) == [10]
    assert (partition.log_start_offset, partition.log.local_start_offset) == (0, 10)
    assert partition.log.epochs.entries()[0][1] == 0
    assert sim.logs._folders.of(("t", 0)).log_starts == {("t", 0): 0}  # type: ignore[union-attr]


def test_without_copies_the_topics_retention_raises_the_log_start() -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="0", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 10)
    with_tier(topic, 4, **{"remote.log.copy.disable": True})
    sim.advance(CHECK_MS)
    assert (bases(partition), partition.log_start_offset) == ([10], 10)


def test_segments_below_the_log_start_go_although_the_tier_lacks_them() -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 10)
    with_tier(topic, 0)
    sim.broker.upkeep.deletion.delete_before(topic, 0, 7)
    sim.settle()
    assert bases(partition) == [6, 8]
    assert (partition.log_start_offset, partition.log.local_start_offset) == (7, 7)


def test_a_follower_drops_what_the_tier_has_by_itself() -> None:
    members = started(SETTINGS, count=2)
    elect(members, 1)
    leader, follower = members.partition(1), members.partition(2)
    for number in range(3):
        append(leader, b"%d" % number)
        replicate(members, 2)
        follower.roll()
    topic = members[2].broker.topics.find("t")
    assert topic is not None
    with_tier(topic, 2, **{"local.retention.bytes": 0})
    follower.flush.now()
    members.settle()
    members[2].broker.upkeep.cleanup.retain(follower)
    members.settle()
    assert (follower.log.start_offset, follower.log.local_start_offset) == (0, 2)
    assert (leader.log.start_offset, leader.log.local_start_offset) == (0, 0)
