"""Whole brokers whose topics are cleaned while time goes by."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import OffsetOutOfRange, SettingError, UnknownTopicOrPartition
from kqueue.base.settings import TopicConfig
from kqueue.broker.partition import Partition
from kqueue.broker.topics import OFFSETS_TOPIC, Topic
from kqueue.groups.offset_manager import OffsetToCommit
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.policies import POLICIES, Cleanup, CommittedOffsets, Compact, Drop, LogView
from kqueue.records.batch import (
    ABORT,
    COMMIT,
    HEADER,
    Record,
    control_key_value,
    iter_batches,
    iter_records,
    read_header,
    set_max_timestamp,
)
from kqueue.records.builder import build_batch
from kqueue.storage import LocalStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation

CHECK_MS = 10_000
SETTINGS = {"log.retention.check.interval.ms": CHECK_MS, "log.cleaner.backoff.ms": 1000}
SEGMENT = {"segment_bytes": "500"}


def broker_on(storage: str) -> Simulation:
    if storage == "memory":
        return Simulation({**SETTINGS, "kqueue.storage": "memory"})
    return Simulation(SETTINGS, storage=FaultyStorage() if storage == "faulty" else None)


def put(sim: Simulation, partition: Partition, key: bytes | None, value: bytes | None) -> None:
    batch = build_batch([Record(0, sim.clock.wall_ms(), key, value)])
    partition.append(memoryview(batch), read_header(batch))
    sim.settle()


def fill(
    sim: Simulation, partition: Partition, count: int, *, keys: int = 5, every_ms: float = 0, value: bytes = b"." * 100
) -> None:
    """Records of about 180 bytes, so that two fit into a segment; value `<number>.....`."""
    for _ in range(count):
        number = partition.log_end_offset
        put(sim, partition, b"key-%d" % (number % keys), b"%d" % number + value)
        sim.advance(every_ms)


def records(partition: Partition) -> list[Record]:
    """What a consumer that begins at the log start sees."""
    found: list[Record] = []
    offset = partition.log_start_offset
    while data := (fetched := partition.read_now(offset, 1 << 20)).read():
        found += [
            record
            for position, _ in iter_batches(data)
            for record in iter_records(data, position)
            if record.offset >= offset
        ]
        offset = fetched.next_offset
    return found


def offsets(partition: Partition) -> list[int]:
    return [record.offset for record in records(partition)]


def latest(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records(partition) if record.value is not None}


def bases(partition: Partition) -> list[int]:
    return [segment.base for segment in partition.log.segments]


def names(sim: Simulation, topic: Topic, index: int = 0, suffix: str = "") -> list[str]:
    return [entry.name for entry in sim.storage.list(f"{topic.name}-{index}") if entry.name.endswith(suffix)]


def commit(sim: Simulation, group: str, topic: str, offset: int) -> None:
    assert sim.result(sim.broker.groups.commit(group, -1, "", None, [OffsetToCommit(topic, 0, offset)])) == [None]


@contextlib.contextmanager
def policy(name: str, plan: Callable[[LogView, CommittedOffsets, TopicConfig, int], Any]) -> Iterator[None]:
    """A plugin's policy, as an installed distribution would register it."""

    class Plugin:
        def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
            result: Cleanup | None = plan(log, groups, config, now_ms)
            return result

    plugin = Plugin()
    plugin.name = name  # type: ignore[attr-defined]
    with POLICIES.added(name, plugin, "a test"):  # type: ignore[arg-type]
        yield


def check_restart(sim: Simulation, name: str) -> Simulation:
    """What is there now is there after a clean stop, and (of what is on a disk) after a power cut
    without one.
    """
    partition = sim.broker.topics.partition(name, 0)
    found, start = records(partition), partition.log_start_offset
    sim.settle()
    if isinstance(sim.storage, FaultyStorage):
        for remains in Remains:
            left = sim.storage.after_cut(remains, random.Random(1))
            other = Simulation(sim.settings, storage=left, store=sim.store, clock=sim.clock)
            again = other.broker.topics.partition(name, 0)
            assert (records(again), again.log_start_offset) == (found, start)
        return sim
    sim.stop()
    restarted = sim.restarted()
    again = restarted.broker.topics.partition(name, 0)
    assert (records(again), again.log_start_offset, again.log_end_offset) == (
        found,
        start,
        found[-1].offset + 1 if found else start,
    )
    return restarted


# --- delete


@pytest.mark.parametrize("storage", ["local", "memory", "faulty"])
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


def test_when_all_is_too_old_an_empty_segment_is_left_and_appends_go_on() -> None:
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


def test_by_size_the_oldest_go_only_while_the_rest_stays_at_or_above_the_limit() -> None:
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
    assert sim.logs._folder_of(("t", 0)).log_starts == {("t", 0): 6}  # type: ignore[union-attr]


def test_a_topic_deleted_meanwhile_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="0", **SEGMENT)
    fill(sim, topic.partition(0), 6)
    partition = topic.partition(0)
    sim.broker.cleanup.retain(partition)
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


def test_logs_that_nobody_has_opened_since_the_start_expire_too() -> None:
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


def test_files_that_somebody_has_removed_do_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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


# --- compact


@pytest.mark.parametrize("storage", ["local", "memory", "faulty"])
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
    assert sim.logs.cleaner_offset(("t", 0)) == active
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
    cleaned = sim.logs.cleaner_offset(("t", 0))
    assert cleaned == 40
    fill(sim, partition, 10, keys=20)
    sim.advance(60_000)
    assert sim.logs.cleaner_offset(("t", 0)) == cleaned
    fill(sim, partition, 20, keys=20)
    sim.advance(2000)
    assert sim.logs.cleaner_offset(("t", 0)) == bases(partition)[-1]


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
    found = {record.key: record.value for record in records(partition)}
    assert found[b"key-0"] is None, "whoever reads from the start hears of the deletion"
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
        made = build_batch(
            [one], producer_id=producer, epoch=0, base_sequence=0, transactional=True, control=marker is not None
        )
        partition.append(memoryview(made), read_header(made), client=False)
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
    cleaning = sim.broker.cleanup
    cleaning._compact()
    assert cleaning.cleaner.is_busy(("dirty", 0))
    assert not cleaning.cleaner.is_busy(("clean", 0))
    assert cleaning.cleaner.room == 0
    sim.settle()
    assert sim.logs.cleaner_offset(("clean", 0)) == bases(clean)[-1], "the next follows without a pause"


def test_segments_are_not_dropped_while_they_are_compacted() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact,delete", retention_bytes="0", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.broker.cleanup._compact()
    sim.broker.cleanup.retain(partition)
    assert partition.log_start_offset == 0
    sim.settle()
    sim.broker.cleanup.retain(partition)
    sim.settle()
    assert partition.log_start_offset == 10


def test_a_log_that_fails_to_clean_is_set_aside_and_the_rest_go_on(caplog: pytest.LogCaptureFixture) -> None:
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
    reason = sim.broker.cleanup.cleaner.uncleanable[("bad", 0)]
    assert "00000000000000000002.log" in reason
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert sum("can't be compacted and is set aside" in message for message in errors) == 1
    assert names(sim, sim.broker.topics.get("bad"), suffix=".cleaned") == []
    sim.broker.topics.delete("bad")
    sim.settle()
    assert sim.broker.cleanup.cleaner.uncleanable == {}


def test_a_full_disk_is_tried_again_later() -> None:
    storage = FaultyStorage()
    sim = Simulation(SETTINGS, storage=storage)
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    storage.capacity_bytes = 0
    sim.advance(5000)
    assert "ENOSPC" in sim.broker.cleanup.cleaner.uncleanable[("t", 0)]
    storage.capacity_bytes = None
    sim.advance(300_000)
    assert len(offsets(partition)) == 10
    sim.advance(310_000)
    assert offsets(partition) == [6, 7, 8, 9]
    assert sim.broker.cleanup.cleaner.uncleanable == {}


def test_a_topic_that_goes_while_it_is_compacted() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 10, keys=2)
    sim.broker.cleanup._compact()
    while not isinstance(getattr(sim.jobs.pending[0], "task", None), CompactionTask):
        sim.jobs.step()
    sim.broker.topics.delete("t")
    sim.settle()
    again = sim.topic("t", cleanup_policy="delete", **SEGMENT)
    fill(sim, again.partition(0), 3)
    assert offsets(again.partition(0)) == [0, 1, 2]
    assert not sim.broker.cleanup.cleaner.is_busy(("t", 0))
    assert names(sim, again, suffix=".cleaned") == []


@pytest.mark.parametrize("steps", range(12))
def test_a_log_that_is_cut_while_it_is_compacted_keeps_what_it_has(steps: int) -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", cleanup_policy="compact", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 20, keys=2)
    sim.broker.cleanup._compact()
    for _ in range(steps):
        sim.jobs.step()
    partition.log.truncate_to(3)
    log = partition.log
    expected = {record.key for record in records(partition) if record.offset < log.end_offset}
    sim.settle()
    assert log.offline is None
    assert {record.key for record in records(partition) if record.offset < log.end_offset} == expected
    assert names(sim, topic, suffix=".cleaned") == names(sim, topic, suffix=".swap") == []
    assert not sim.broker.cleanup.cleaner.is_busy(("t", 0))


@pytest.mark.parametrize("steps", range(14))
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
    sim.broker.cleanup._compact()
    for _ in range(steps):
        sim.jobs.step()
    promise = sim.broker.deletion.delete_before(topic, 0, 11)
    assert sim.result(promise) == 11
    assert latest(partition) == expected
    assert offsets(partition)[0] >= 11
    assert not sim.broker.cleanup.cleaner.is_busy(("t", 0))
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
    assert sim.logs.cleaner_offset(("t", 0)) == bases(partition)[-1]
    assert len(offsets(partition)) < 100


# --- the power goes


@hypothesis.settings(max_examples=40, deadline=None)
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


# --- consumed


def test_what_all_groups_have_consumed_goes() -> None:
    """S5.4"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("jobs", cleanup_policy="consumed", **{**SEGMENT, "kqueue_consumed_groups": "mail,bill"})
    partition = topic.partition(0)
    fill(sim, partition, 10)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 0, "nobody has consumed anything"
    commit(sim, "mail", "jobs", 9)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 0, "bill has not begun"
    commit(sim, "bill", "jobs", 5)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 4, "whole segments below 5"
    commit(sim, "bill", "jobs", 10)
    commit(sim, "mail", "jobs", 10)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 8, "the active segment stays"
    sim = check_restart(sim, "jobs")
    sim.advance(10**7)
    assert sim.broker.topics.partition("jobs", 0).log_start_offset == 8, "nothing times out without delete"


def test_what_nobody_consumes_times_out_beside_delete() -> None:
    """S5.4"""
    sim = Simulation(SETTINGS)
    settings = {**SEGMENT, "kqueue_consumed_groups": "mail", "retention_ms": "60000"}
    partition = sim.topic("jobs", cleanup_policy="delete,consumed", **settings).partition(0)
    fill(sim, partition, 10)
    commit(sim, "mail", "jobs", 4)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 4
    sim.advance(60_000)
    assert partition.log_start_offset == 10


# --- plugins


def test_a_plugins_policy_drops() -> None:
    def keep_two(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        return Drop(log.segments[-2].base_offset, "two are enough") if len(log.segments) > 2 else None

    with policy("keep-two", keep_two):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="keep-two", **SEGMENT).partition(0)
        fill(sim, partition, 20)
        sim.advance(CHECK_MS)
        assert bases(partition) == [16, 18]
        assert partition.log_start_offset == 16
        check_restart(sim, "t")


def is_not_forgotten(record: Record) -> bool:
    return record.key != b"key-1"


def test_a_plugins_policy_rewrites_with_a_filter_of_its_own() -> None:
    asked = []

    def forget(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Compact:
        asked.append(log)
        return Compact(keep=is_not_forgotten, why="somebody asked to be forgotten")

    with policy("forget", forget):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="forget", **SEGMENT).partition(0)
        fill(sim, partition, 10, keys=3)
        sim.advance(2000)
        active = bases(partition)[-1]
        assert offsets(partition) == [offset for offset in range(10) if offset % 3 != 1 or offset >= active]
        assert sim.logs.cleaner_offset(("t", 0)) == active
        sim = check_restart(sim, "t")
        assert len(asked) < 10, "it is not done over and over"


@pytest.mark.parametrize("greed", [Drop(10**12, "all of it", roll_active=True), Drop(10**12, "all of it")])
def test_no_policy_can_harm_what_is_not_safe_yet(greed: Drop) -> None:
    """A drop is kept within sealed segments below the high watermark."""
    with policy("greedy", lambda *_: greed):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="greedy", **SEGMENT).partition(0)
        fill(sim, partition, 10)
        batch = build_batch([Record(0, sim.clock.wall_ms(), b"key", b"not flushed")])
        partition.append(memoryview(batch), read_header(batch))
        assert partition.high_watermark == 10
        sim.broker.cleanup.retain(partition)
        while sim.jobs.step() or sim.broker.purgatory.run_ready():
            assert partition.log_start_offset <= partition.high_watermark
        assert records(partition)[-1].value == b"not flushed"


def test_a_policy_that_raises_is_told_of_once_and_its_log_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("one half of nothing")

    with policy("broken", fail):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="delete,broken", retention_bytes="0", **SEGMENT).partition(0)
        other = sim.topic("u", retention_bytes="0", **SEGMENT).partition(0)
        fill(sim, partition, 6)
        fill(sim, other, 6)
        sim.advance(CHECK_MS * 10)
    assert (partition.log_start_offset, other.log_start_offset) == (0, 6)
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "t-0: cleanup policy 'broken' of a test failed, the log is left alone: ZeroDivisionError" in errors[0]


@pytest.mark.parametrize("nonsense", [5, "delete", Drop("5", "a text"), Compact(upto_offset="5")])  # type: ignore[arg-type]
def test_what_is_no_plan_is_no_plan(nonsense: object, caplog: pytest.LogCaptureFixture) -> None:
    with policy("nonsense", lambda *_: nonsense):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="nonsense", **SEGMENT).partition(0)
        fill(sim, partition, 6)
        sim.advance(CHECK_MS * 3)
        assert len(offsets(partition)) == 6
    assert "nonsense" in caplog.text


def test_a_policy_sees_what_groups_have_committed() -> None:
    seen = []

    def look(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> None:
        seen.append(
            (
                groups.committed("g", log.topic, log.partition),
                groups.committed("other", log.topic, log.partition),
                now_ms,
            )
        )

    with policy("looking", look):
        sim = Simulation(SETTINGS)
        fill(sim, sim.topic("t", cleanup_policy="looking", **SEGMENT).partition(0), 2)
        commit(sim, "g", "t", 1)
        sim.advance(CHECK_MS)
    assert seen[-1] == (1, None, sim.clock.wall_ms()) or seen[-1][:2] == (1, None)


def test_a_broker_does_not_serve_a_topic_whose_policy_it_has_no_more() -> None:
    """Rather than keep, or drop, what the topic's owner wanted otherwise."""
    with policy("gone", lambda *_: None):
        sim = Simulation(SETTINGS)
        sim.topic("t", cleanup_policy="delete,gone")
        sim.stop()
    with pytest.raises(SettingError, match="topic t was made with .*no cleanup policy is called 'gone'"):
        sim.restarted()


# --- the broker's own topic


def test_consumer_offsets_are_compacted_and_groups_come_back_as_they_were() -> None:
    """S5.2: __consumer_offsets"""
    settings = {**SETTINGS, "offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1000}
    sim = Simulation(settings)
    sim.topic("t", **SEGMENT)
    for offset in range(60):
        for group in ("g1", "g2", "g3"):
            commit(sim, group, "t", offset)
    own = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    size = own.log.segments.size
    sim.advance(5000)
    assert own.log.segments.size < size / 3
    sim.advance(100_000)
    sim.stop()
    sim = sim.restarted()
    assert {group: sim.broker.groups.offsets(group)["t"][0].offset for group in ("g1", "g2", "g3")} == {
        "g1": 59,
        "g2": 59,
        "g3": 59,
    }
    sim.result(sim.broker.groups.delete("g2"))
    for offset in range(60, 100):
        commit(sim, "g1", "t", offset)
    sim.advance(10_000)
    sim.stop()
    again = sim.restarted()
    assert again.broker.groups.offsets("g1")["t"][0].offset == 99
    assert again.broker.groups.offsets("g2") == {}


def test_a_round_over_many_partitions_is_gone_in_turns_and_no_other_begins_meanwhile() -> None:
    sim = Simulation(SETTINGS)
    partitions = sim.topic("t", partitions=120, retention_ms="1000", **SEGMENT).partitions
    for partition in partitions:
        fill(sim, partition, 1)
    seen: list[int] = []
    retain = sim.broker.cleanup.retain

    def note(partition: Partition) -> None:
        seen.append(partition.index)
        sim.clock.advance(0.01)  # as time goes by itself: what is put off to now is for the next turn
        retain(partition)

    sim.broker.cleanup.retain = note  # type: ignore[method-assign]
    sim.clock.advance(CHECK_MS)
    for expected in (50, 100):
        sim.broker.timers.run_due(sim.clock.monotonic_ms())
        assert len(seen) == expected
        sim.broker.cleanup._begin_round()
    sim.broker.timers.run_due(sim.clock.monotonic_ms())
    assert seen == list(range(120))


# --- records without a time


def put_without_time(sim: Simulation, topic: Topic, claimed: int) -> None:
    batch = build_batch([Record(0, -1, b"k", b"." * 200)])
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(max_timestamp=claimed))
    set_max_timestamp(batch, 0, claimed)
    topic.appender.append(topic.partition(0), memoryview(batch), now_ms=sim.clock.wall_ms(), produce_version=9)
    sim.settle()


@pytest.mark.parametrize("claimed", [-1, 0])
@pytest.mark.parametrize("restarts", [False, True])
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
