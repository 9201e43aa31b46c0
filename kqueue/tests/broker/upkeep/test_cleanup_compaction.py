"""Compaction by a whole broker: when it begins, what it keeps, and what it does not disturb."""

from __future__ import annotations

import contextlib
import random

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.records.batch import (
    ABORT,
    COMMIT,
    Record,
    control_key_value,
    read_header,
)
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.upkeep.cleanup_broker import (
    CHECK_MS,
    SEGMENT,
    SETTINGS,
    bases,
    broker_on,
    check_restart,
    fill,
    latest,
    names,
    offsets,
    put,
    records,
)
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples


@for_each("storage", ["local", "memory", "faulty"])
def test_compacted_topics_keep_the_last_value_of_each_key(storage: str) -> None:
    """S5.2"""
    sim = broker_on(storage)
    topic = sim.topic("t", cleanup_policy="compact", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 30, keys=3)
    before, size = latest(partition), partition.log.segments.size
    sim.advance(2000)
    assert latest(partition) == before
    active = bases(partition)[-1]
    assert [offset for offset in offsets(partition) if offset < active] == [active - 3, active - 2, active - 1]
    assert partition.log.segments.size < size / 2
    assert sim.logs.checkpoints.cleaner_offset(("t", 0)) == active
    assert names(sim, topic, suffix=".cleaned") == names(sim, topic, suffix=".swap") == []
    if storage != "memory":
        check_restart(sim, "t")
    sim.advance(120_000)
    assert names(sim, topic, suffix=".deleted") == []


def test_no_compaction_begins_before_enough_is_dirty() -> None:
    """S5.2: min.cleanable.dirty.ratio"""
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 41, keys=20, every_ms=0)
    sim.advance(1000)
    cleaned = sim.logs.checkpoints.cleaner_offset(("t", 0))
    assert cleaned == 40
    fill(sim, partition, 10, keys=20)
    sim.advance(60_000)
    assert sim.logs.checkpoints.cleaner_offset(("t", 0)) == cleaned
    fill(sim, partition, 20, keys=20)
    sim.advance(2000)
    assert sim.logs.checkpoints.cleaner_offset(("t", 0)) == bases(partition)[-1]


def test_the_greatest_lag_ends_segments_and_compacts_whatever_the_ratio() -> None:
    """S5.2: max.compaction.lag.ms"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", cleanup_policy="compact", max_compaction_lag_ms="100000", min_cleanable_dirty_ratio="1")
    partition = topic.partition(0)
    fill(sim, partition, 10, keys=2)
    sim.advance(100_001)
    assert len(offsets(partition)) == 10, "all is in the active segment"
    fill(sim, partition, 1, keys=2)
    assert bases(partition) == [0, 10]
    sim.advance(1000)
    assert offsets(partition) == [8, 9, 10]


def test_young_records_are_left_alone() -> None:
    """S5.2: min.compaction.lag.ms"""
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", min_compaction_lag_ms="50000", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.advance(49_000)
    assert len(offsets(partition)) == 10
    sim.advance(3000)
    assert offsets(partition) == [6, 7, 8, 9]


def test_tombstones_go_after_their_time() -> None:
    """S5.2: delete.retention.ms counts from the cleaning that met the tombstone first."""
    sim = Simulation(SETTINGS)
    topic = sim.topic(
        "t", cleanup_policy="compact", delete_retention_ms="60000", min_cleanable_dirty_ratio="0", **SEGMENT
    )
    partition = topic.partition(0)
    fill(sim, partition, 4, keys=2)
    put(sim, partition, b"key-0", None)
    fill(sim, partition, 5, keys=100)
    sim.advance(2000)
    values = {record.key: record.value for record in records(partition)}
    assert values[b"key-0"] is None, "whoever reads from the start hears of the deletion"
    sim.advance(70_000)
    fill(sim, partition, 4, keys=100)
    sim.advance(2000)
    assert b"key-0" not in {record.key for record in records(partition)}
    assert b"key-1" in {record.key for record in records(partition)}


def test_open_transactions_hold_compaction_back() -> None:
    """S5.2: nothing at or above the last stable offset is compacted, aborted data goes."""
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0", **SEGMENT).partition(0)

    def write(producer: int, marker: int | None = None) -> None:
        one = Record(0, sim.clock.wall_ms(), b"key-0", b"transactional" + b"." * 100)
        if marker is not None:
            one = Record(0, sim.clock.wall_ms(), *control_key_value(marker, 0))
        raw = build_batch(
            [one], producer_id=producer, epoch=0, base_sequence=0, transactional=True, control=marker is not None
        )
        partition.append(memoryview(raw), read_header(raw), client=False)
        sim.settle()

    fill(sim, partition, 4, keys=2)
    write(1)
    fill(sim, partition, 8, keys=2)
    write(2)
    sim.advance(2000)
    assert offsets(partition)[:4] != [0, 1, 2, 3]
    assert 4 in offsets(partition), "whether it counts is not known yet"
    assert offsets(partition)[-9:] == list(range(5, 14))
    write(2, COMMIT)
    write(1, ABORT)
    fill(sim, partition, 10, keys=2)
    before = latest(partition)
    sim.advance(2000)
    assert 4 not in offsets(partition)
    assert latest(partition) == before
    sim = check_restart(sim, "t")


def test_compact_and_delete_together() -> None:
    """S5.2: "compact,delete" keeps the last value of each key, and drops what is too old all the
    same.
    """
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact,delete", retention_ms="300000", **SEGMENT).partition(0)
    fill(sim, partition, 20, keys=4)
    sim.advance(2000)
    active = bases(partition)[-1]
    assert [offset for offset in offsets(partition) if offset < active] == list(range(active - 4, active))
    sim.advance(200_000)
    fill(sim, partition, 4, keys=4)
    sim.advance(110_000)
    assert offsets(partition) == [20, 21, 22, 23]
    assert partition.log_start_offset == 20
    check_restart(sim, "t")


def test_the_dirtiest_log_comes_first_and_one_at_a_time() -> None:
    """S5.2: the cleaner picks the dirtiest log first; log.cleaner.threads"""
    sim = Simulation(SETTINGS)
    clean = sim.topic("clean", cleanup_policy="compact", min_cleanable_dirty_ratio="0.1", **SEGMENT).partition(0)
    fill(sim, clean, 20, keys=20)
    sim.advance(2000)
    fill(sim, clean, 10, keys=20)
    dirty = sim.topic("dirty", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, dirty, 10, keys=2)
    cleaning = sim.broker.upkeep.cleanup
    cleaning._compact()
    assert cleaning.cleaner.is_busy(("dirty", 0))
    assert not cleaning.cleaner.is_busy(("clean", 0))
    assert cleaning.cleaner.room == 0
    sim.settle()
    assert sim.logs.checkpoints.cleaner_offset(("clean", 0)) == bases(clean)[-1], "the next follows without a pause"


def test_segments_are_not_dropped_while_they_are_compacted() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact,delete", retention_bytes="0", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.broker.upkeep.cleanup._compact()
    sim.broker.upkeep.cleanup.retain(partition)
    assert partition.log_start_offset == 0
    sim.settle()
    sim.broker.upkeep.cleanup.retain(partition)
    sim.settle()
    assert partition.log_start_offset == 10


def test_a_log_that_fails_to_clean_is_skipped_and_others_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    """S5.2"""
    storage = FaultyStorage()
    sim = Simulation(SETTINGS, storage=storage)
    bad, good = (sim.topic(name, cleanup_policy="compact", **SEGMENT).partition(0) for name in ("bad", "good"))
    for partition in (bad, good):
        fill(sim, partition, 10, keys=2)
    storage._node("bad-0/00000000000000000002.log").data[120] ^= 1  # type: ignore[union-attr]
    sim.advance(60_000)
    assert offsets(good) == [6, 7, 8, 9]
    assert bad.log.segments[0].base == 0
    assert len(bad.log.segments) == 5
    reason = sim.broker.upkeep.cleanup.cleaner.uncleanable[("bad", 0)]
    assert "00000000000000000002.log" in reason
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert sum("cannot be compacted and is excluded" in message for message in errors) == 1
    assert names(sim, sim.broker.topics.get("bad"), suffix=".cleaned") == []
    sim.broker.topics.delete("bad")
    sim.settle()
    assert sim.broker.upkeep.cleanup.cleaner.uncleanable == {}


def test_a_full_disk_is_tried_again_later() -> None:
    storage = FaultyStorage()
    sim = Simulation(SETTINGS, storage=storage)
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    storage.capacity_bytes = 0
    sim.advance(5000)
    assert "ENOSPC" in sim.broker.upkeep.cleanup.cleaner.uncleanable[("t", 0)]
    storage.capacity_bytes = None
    sim.advance(300_000)
    assert len(offsets(partition)) == 10
    sim.advance(310_000)
    assert offsets(partition) == [6, 7, 8, 9]
    assert sim.broker.upkeep.cleanup.cleaner.uncleanable == {}


def test_a_topic_that_goes_while_it_is_compacted() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.broker.upkeep.cleanup._compact()
    while not isinstance(getattr(sim.jobs.pending[0], "task", None), CompactionTask):
        sim.jobs.step()
    sim.broker.topics.delete("t")
    sim.settle()
    again = sim.topic("t", cleanup_policy="delete", **SEGMENT)
    fill(sim, again.partition(0), 3)
    assert offsets(again.partition(0)) == [0, 1, 2]
    assert not sim.broker.upkeep.cleanup.cleaner.is_busy(("t", 0))
    assert names(sim, again, suffix=".cleaned") == []


@for_each("steps", range(12))
def test_a_log_that_is_cut_while_it_is_compacted_keeps_what_it_has(steps: int) -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", cleanup_policy="compact", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 20, keys=2)
    sim.broker.upkeep.cleanup._compact()
    for _ in range(steps):
        sim.jobs.step()
    partition.log.truncate_to(3)
    log = partition.log
    expected = {record.key for record in records(partition) if record.offset < log.end_offset}
    sim.settle()
    assert log.health.failure is None
    assert {record.key for record in records(partition) if record.offset < log.end_offset} == expected
    assert names(sim, topic, suffix=".cleaned") == names(sim, topic, suffix=".swap") == []
    assert not sim.broker.upkeep.cleanup.cleaner.is_busy(("t", 0))


@for_each("steps", range(14))
def test_records_that_are_deleted_while_their_log_is_compacted(steps: int) -> None:
    """S5.1, S5.2: the deletion does not wait for the compaction, which gives up what it would have
    put there.
    """
    storage = FaultyStorage()
    sim = Simulation(SETTINGS, storage=storage)
    topic = sim.topic("t", cleanup_policy="compact,delete", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 20, keys=3)
    expected = latest(partition)
    sim.broker.upkeep.cleanup._compact()
    for _ in range(steps):
        sim.jobs.step()
    promise = sim.broker.upkeep.deletion.delete_before(topic, 0, 11)
    assert sim.result(promise) == 11
    assert latest(partition) == expected
    assert offsets(partition)[0] >= 11
    assert not sim.broker.upkeep.cleanup.cleaner.is_busy(("t", 0))
    assert names(sim, topic, suffix=".cleaned") == names(sim, topic, suffix=".swap") == []
    check_restart(sim, "t")
    fill(sim, partition, 10, keys=3)
    sim.advance(5000)
    active = bases(partition)[-1]
    assert [offset for offset in offsets(partition) if offset < active] == list(range(active - 3, active))


def test_the_cleaner_can_be_turned_off() -> None:
    sim = Simulation({**SETTINGS, "log.cleaner.enable": "false"})
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.advance(100_000)
    assert len(offsets(partition)) == 10


def test_a_small_table_of_keys_cleans_part_by_part() -> None:
    """S5.2: bounded memory; what does not fit is cleaned in the next run, which follows at once."""
    sim = Simulation({**SETTINGS, "log.cleaner.dedupe.buffer.size": 1024})
    partition = sim.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0", **SEGMENT).partition(0)
    fill(sim, partition, 200, keys=60)
    before = latest(partition)
    sim.advance(5000)
    assert latest(partition) == before
    assert sim.logs.checkpoints.cleaner_offset(("t", 0)) == bases(partition)[-1]
    assert len(offsets(partition)) < 100


# --- the power goes


@hypothesis.settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(1, 140),
    st.sampled_from(["compact", "compact,delete", "delete"]),
    st.sampled_from(Remains),
    st.integers(0, 99),
)
def test_whenever_the_power_goes_a_cleaned_log_has_all_that_was_to_stay(
    cut: int, names: str, remains: Remains, seed: int
) -> None:
    """S5.1, S5.2, S5.3: no last value is lost, and no log start that was seen goes back."""
    storage = FaultyStorage()
    sim = Simulation({**SETTINGS, "log.flush.offset.checkpoint.interval.ms": 700}, storage=storage)
    size = "1500" if names == "delete" else "-1"
    partition = sim.topic(
        "t", cleanup_policy=names, retention_bytes=size, file_delete_delay_ms="100", **SEGMENT
    ).partition(0)
    fill(sim, partition, 24, keys=3)
    expected, seen = latest(partition), partition.log_start_offset
    storage.cut_at = len(storage.steps) + cut
    with contextlib.suppress(PowerCut):
        for _ in range(30):
            sim.advance(500)
            seen = partition.log_start_offset
    left = storage.after_cut(remains, random.Random(seed))
    again = Simulation(sim.settings, storage=left, store=sim.store, clock=sim.clock)
    partition = again.broker.topics.partition("t", 0)
    for _ in range(2):
        assert latest(partition) == expected
        assert partition.log_end_offset == 24
        assert partition.log_start_offset >= seen
        again.advance(2 * CHECK_MS)
