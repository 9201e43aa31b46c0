"""Moves of logs between data folders: their steps, and a power cut at each of them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import random
import re

import pytest

from kqueue.base.errors import LogDirNotFound, StorageFailed, StorageUnavailable, UnknownTopicOrPartition
from kqueue.broker.replicas.partition import Partition
from kqueue.log.formats.checkpoints import LOG_STARTS, decode_offsets
from kqueue.log.log_mover import TRANSITIONS, Move, MoveState
from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.log.two_folders import NOW_MS, append, check_records, names, place_of, run, start
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners, parts


def live(storage: FaultyStorage, flush: str, world: list[Simulation], seen: list[int]) -> None:
    """Move a partition there and back beside appends. `world` gets the broker, `seen` what
    consumers could read.
    """
    sim = start(storage, kqueue_flush=flush)
    world.append(sim)
    partition = sim.topic("t", segment_bytes="300").partition(0)
    append(partition, 4)
    sim.settle()
    source = place_of(sim)
    for place in ("b" if source == "a" else "a", source):
        sim.broker.upkeep.moves.alter("t", 0, place)
        for _ in range(2):
            append_if_possible(partition)
            while sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready():
                if flush == "group":
                    seen.append(partition.high_watermark)
            sim.advance(1500)
        assert place_of(sim) == place
    sim.stop()


def append_if_possible(partition: Partition) -> None:
    with contextlib.suppress(StorageUnavailable):
        append(partition)


def test_a_log_moves_while_it_is_used() -> None:
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t", segment_bytes="500").partition(0)
    append(partition, 30)
    sim.settle()
    source = place_of(sim)
    target = "b" if source == "a" else "a"
    region = partition.read(0, 1 << 20).fetched.region
    assert region is not None
    before = region.read()
    sim.broker.upkeep.moves.alter("t", 0, target)
    append(partition, 5)
    run(sim)
    assert place_of(sim) == target
    append(partition, 5)
    run(sim)
    check_records(partition)
    assert partition.high_watermark == 40
    assert region.read() == before, "readers of the old files are not disturbed"
    assert (names(storage, source), names(storage, target)) == ([], ["t-0"])
    sim.stop()
    sim = start(storage, sim)
    partition = sim.broker.topics.partition("t", 0)
    assert not partition.log.damage
    check_records(partition)
    assert (place_of(sim), partition.high_watermark) == (target, 40)


@parts(8)
@pytest.mark.parametrize(
    ("flush", "remains"),
    corners(
        [("group", Remains.LOST), ("group", Remains.TORN), ("kafka", Remains.KEPT)],
        ("group", Remains.TORN),
        ("kafka", Remains.KEPT),
    ),
)
def test_a_power_cut_at_any_step_loses_nothing(flush: str, remains: Remains, part: slice) -> None:
    whole = FaultyStorage()
    live(whole, flush, [], [])
    for cut_at in range(1, len(whole.steps) + 1)[part]:
        storage = FaultyStorage(cut_at=cut_at)
        world: list[Simulation] = []
        seen = [0]
        with pytest.raises(PowerCut):
            live(storage, flush, world, seen)
        after = storage.after_cut(remains, random.Random(cut_at))
        if not world or world[0].broker.topics.find("t") is None:
            continue
        sim = start(after, world[0], kqueue_flush=flush)
        partition = sim.broker.topics.partition("t", 0)
        assert partition.high_watermark >= max(seen), f"cut at step {cut_at}: {storage.steps[-1]}"
        check_records(partition)
        assert not partition.log.damage
        append(partition)
        run(sim, 5000)
        check_records(partition)
        assert sum(name == "t-0" for place in "ab" for name in names(after, place)) == 1, "one folder is left"
        assert not [name for place in "ab" for name in names(after, place) if name.endswith("-future")]
        sim.stop()


@for_each("clean", [True, False])
@for_each("steps", [2, 3, 5])
def test_a_stop_loses_nothing_and_the_move_begins_again(clean: bool, steps: int) -> None:
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t", segment_bytes="300").partition(0)
    append(partition, 20)
    sim.settle()
    source = place_of(sim)
    target = "b" if source == "a" else "a"
    sim.broker.upkeep.moves.alter("t", 0, target)
    for _ in range(steps):
        sim.jobs.step()
    assert any(name.endswith("-future") for name in names(storage, target))
    if clean:
        sim.stop()
    storage.locks.clear()
    sim = start(storage, sim)
    run(sim, 5000)
    assert place_of(sim) == target
    check_records(sim.broker.topics.partition("t", 0))
    assert names(storage, target) == ["t-0"]


def test_producers_keep_their_window_and_log_starts_and_epochs_move_along() -> None:
    storage = FaultyStorage()
    sim = start(storage)
    topic = sim.topic("t", segment_bytes="300")
    partition = topic.partition(0)

    def idempotent(sequence: int) -> int:
        record = Record(0, NOW_MS, None, b"%d" % sequence)
        batch = build_batch([record], producer_id=5, epoch=0, base_sequence=sequence)
        return partition.append(memoryview(batch), read_header(batch)).base_offset

    offsets = [idempotent(sequence) for sequence in range(12)]
    sim.settle()
    sim.result(sim.broker.upkeep.deletion.delete_before(topic, 0, 5))
    target = "b" if place_of(sim) == "a" else "a"
    old = partition.log
    sim.broker.upkeep.moves.alter("t", 0, target)
    run(sim)
    assert partition.log is not old
    assert place_of(sim) == target
    assert [idempotent(sequence) for sequence in range(8, 12)] == offsets[8:], "repeated batches are known"
    assert idempotent(12) == 12
    assert partition.log_start_offset == 5
    assert partition.log.epochs.entries() == old.epochs.entries() != ()
    sim.stop()
    sim = start(storage, sim)
    assert sim.broker.topics.partition("t", 0).log_start_offset == 5


def test_a_full_target_ends_the_move_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t").partition(0)
    append(partition, 20)
    sim.settle()
    source = place_of(sim)
    target = "b" if source == "a" else "a"
    storage.fail("append", lambda path: "-future" in path and path.endswith(".log"), number=errno.ENOSPC)
    with caplog.at_level(logging.ERROR, "kqueue.log"):
        sim.broker.upkeep.moves.alter("t", 0, target)
        run(sim)
    assert f"t-0 can't be moved to {target}, it stays where it is: can't append" in caplog.text
    assert place_of(sim) == source
    assert names(storage, target) == []
    append(partition, 5)
    sim.settle()
    check_records(partition)
    storage.mend()
    sim.broker.upkeep.moves.alter("t", 0, target)
    run(sim)
    assert place_of(sim) == target


def test_a_copy_that_would_not_leave_the_reserve_free_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage(capacity_bytes=3_000_000)
    sim = start(storage, kqueue_disk_reserve_bytes=1_000_000)
    partition = sim.topic("t", segment_bytes="100000").partition(0)
    for _ in range(12):
        append(partition, 1, 100_000)
        sim.settle()
    source = place_of(sim)
    with caplog.at_level(logging.ERROR, "kqueue.log"):
        sim.broker.upkeep.moves.alter("t", 0, "b" if source == "a" else "a")
        run(sim)
    assert re.search(
        r"it stays where it is: expected 2200\d+ free bytes in \w, 1000000 of them as a reserve", caplog.text
    )
    assert place_of(sim) == source
    append(partition)


@for_each("kind", ["write_atomic", "rename"])
def test_a_failed_commit_or_rename_leaves_the_log_where_it_is(kind: str) -> None:
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t").partition(0)
    append(partition, 20)
    sim.settle()
    source = place_of(sim)
    target = "b" if source == "a" else "a"
    kinds = {step.kind for step in storage.steps}
    storage.fail(kind if kind in kinds else "sync", lambda path: "moved-partitions" in path or "-future" in path)
    sim.broker.upkeep.moves.alter("t", 0, target)
    run(sim)
    storage.mend()
    append(partition, 5)
    run(sim)
    assert place_of(sim) == source
    check_records(partition)
    sim.stop()
    sim = start(storage, sim)
    run(sim)
    partition = sim.broker.topics.partition("t", 0)
    assert partition.high_watermark == 25
    check_records(partition)


def test_moving_back_or_deleting_the_topic_ends_a_move() -> None:
    storage = FaultyStorage()
    for steps in range(1, 30):
        sim = start(FaultyStorage())
        storage = sim.storage.storage  # type: ignore[attr-defined]
        partition = sim.topic("t", segment_bytes="300").partition(0)
        append(partition, 10)
        sim.settle()
        source = place_of(sim)
        target = "b" if source == "a" else "a"
        sim.broker.upkeep.moves.alter("t", 0, target)
        for _ in range(steps):
            sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready()
        if steps % 2:
            sim.broker.upkeep.moves.alter("t", 0, source)
            run(sim)
            check_records(partition)
            assert place_of(sim) == source
            assert names(storage, target) in ([], ["t-0"])
            assert names(storage, source) == ["t-0"]
        else:
            sim.result(sim.broker.topics.delete("t"))
            run(sim)
            again = sim.topic("t").partition(0)
            append(again, 2)
            run(sim)
            assert again.high_watermark == 2
            assert names(storage, "a") + names(storage, "b") == ["t-0"]


def test_move_to_the_same_folder_is_none_and_to_an_unknown_one_is_refused() -> None:
    sim = start(FaultyStorage())
    sim.topic("t")
    sim.settle()
    sim.broker.upkeep.moves.alter("t", 0, place_of(sim))
    assert sim.logs.mover is not None
    assert sim.logs.mover.of(("t", 0)) is None
    with pytest.raises(LogDirNotFound, match=r"expected a folder of log.dirs \(a, b\), found 'c'"):
        sim.broker.upkeep.moves.alter("t", 0, "c")
    with pytest.raises(UnknownTopicOrPartition):
        sim.broker.upkeep.moves.alter("t", 1, "b")


@for_each("place", ["a", "b"])
def test_a_request_decides_where_a_new_partition_is_created(place: str) -> None:
    sim = start(FaultyStorage())
    for index in range(3):
        with pytest.raises(UnknownTopicOrPartition):
            sim.broker.upkeep.moves.alter("t", index, place)
    sim.topic("t", 3)
    sim.settle()
    assert [place_of(sim, index) for index in range(3)] == [place] * 3


def test_appends_of_the_broker_are_refused_for_the_moment_of_the_swap() -> None:
    sim = start(FaultyStorage())
    partition = sim.topic("t").partition(0)
    append(partition, 3)
    sim.settle()
    sim.broker.upkeep.moves.alter("t", 0, "b" if place_of(sim) == "a" else "a")
    while partition.moving is None:
        assert sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready()
    with pytest.raises(StorageUnavailable, match="being moved"):
        append(partition)
    run(sim)
    append(partition)


def test_nothing_is_moved_beside_a_folder_that_is_offline() -> None:
    sim = start(FaultyStorage())
    sim.topic("t")
    sim.settle()
    target = "b" if place_of(sim) == "a" else "a"
    from kqueue.log.folders.data_folders import OfflineFolder

    sim.logs.offline.append(OfflineFolder("c", StorageFailed("gone")))
    with pytest.raises(StorageFailed, match="offline"):
        sim.broker.upkeep.moves.alter("t", 0, target)
    with pytest.raises(StorageFailed, match="data folder c is offline"):
        sim.broker.upkeep.moves.alter("t", 0, "c")


def test_the_rate_of_a_copy_is_limited() -> None:
    sim = start(FaultyStorage(), replica_alter_log_dirs_io_max_bytes_per_second=1_000_000)
    partition = sim.topic("t", segment_bytes="1000000").partition(0)
    append(partition, 60, 100_000)
    sim.settle()
    target = "b" if place_of(sim) == "a" else "a"
    sim.broker.upkeep.moves.alter("t", 0, target)
    run(sim, 3500)
    assert place_of(sim) != target
    listing = next(one for one in sim.logs.list_log_dirs()[0] if one.place == target).run()
    assert 3_000_000 < listing.futures["t", 0].size < 5_000_000
    assert listing.futures["t", 0].offset_lag == 60, "no segment is complete yet"
    run(sim, 3000)
    assert place_of(sim) == target


@for_each("state", MoveState)
@for_each("to", MoveState)
def test_states(state: MoveState, to: MoveState) -> None:
    move = Move(("t", 0), None, "")  # type: ignore[arg-type]
    move.state = state
    if to in TRANSITIONS[state]:
        move.to(to)
    else:
        with pytest.raises(AssertionError):
            move.to(to)


def test_a_log_with_a_remote_tier_moves_with_its_log_start() -> None:
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t", segment_bytes="300").partition(0)
    for _ in range(12):
        append(partition)
        sim.settle()  # a roll waits for a flush
    log = partition.log
    log.config = dataclasses.replace(log.config, tiered=True)
    log.tiered_end = 8
    assert log.delete_local(8, high_watermark=12, why="old") is not None
    expected = log.start_offset, log.local_start_offset, log.end_offset, log.tiered_end, log.epochs.entries()
    assert expected[0] < expected[1]
    target = "b" if place_of(sim) == "a" else "a"
    sim.broker.upkeep.moves.alter("t", 0, target)
    sim.advance(5000)
    assert place_of(sim) == target
    moved = partition.log
    assert moved is not log
    offsets = moved.start_offset, moved.local_start_offset, moved.end_offset
    assert (*offsets, moved.tiered_end, moved.epochs.entries()) == expected
    assert decode_offsets(storage.read(f"{target}/{LOG_STARTS}")) == {("t", 0): 0}
