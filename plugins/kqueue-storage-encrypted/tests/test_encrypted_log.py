"""kqueue's log over it: the power is cut at every step that reaches the disk, in turn; then all is
opened again.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import pytest
from kqueue_storage_encrypted import EncryptedStorage, KeySource

from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log_tools.folder import LogFolder
from kqueue.records.batch import read_header
from kqueue.records.builder import BatchBuilder
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock

os.environ["KEY_OF_TESTS"] = "07" * 32
SOURCE = KeySource(variable="KEY_OF_TESTS")
START_MS = 1_700_000_000_000
CONFIG = LogConfig.of(segment_bytes=1500, index_interval_bytes=150)
KEY, TOPIC_ID = ("t", 0), bytes(range(16))


@dataclass
class World:
    """A log, and what must be true of it. `lowest`: the least offset at which it may end."""

    storage: EncryptedStorage
    values: list[bytes] = field(default_factory=list)
    lowest: int = 0

    def start(self) -> None:
        self.manager = LogManager([self.storage], clock=ManualClock(START_MS), rng=random.Random(5))

    @property
    def log(self) -> Log:
        return self.manager.open(*KEY, TOPIC_ID, CONFIG)

    def append(self, count: int) -> None:
        builder = BatchBuilder()
        for number in range(count):
            self.values.append(b"%d of %d;" % (number, self.log.end_offset) * 9)
            builder.append(START_MS + len(self.values), None, self.values[-1])
        batch = builder.build()
        self.log.append(batch, read_header(batch), leader_epoch=0, client=True)

    def flush(self) -> None:
        job = self.log.flush_job()
        if job is not None:
            job.run()
            job.finish(None, None)
        self.lowest = self.log.flushed_offset

    def truncate(self, offset: int) -> None:
        self.lowest = min(self.lowest, offset)
        self.log.truncate_to(offset)
        del self.values[offset:]

    def stop(self) -> None:
        self.manager.checkpoints.note_high_watermark(*KEY, self.log.end_offset)
        self.manager.close()
        self.lowest = len(self.values)


def script(world: World) -> None:
    """A life with everything in it that touches the disk: rolls, cuts, a restart."""
    world.start()
    world.manager.create(*KEY, TOPIC_ID)
    for number in range(9):
        world.append(2 + number % 3)
        if number % 3 == 2:
            world.flush()
            world.manager.checkpoints.write_all()
    world.append(2)
    world.append(1)
    world.truncate(world.log.end_offset - 1)
    world.append(3)
    world.flush()
    world.truncate(5)
    world.append(4)
    world.stop()
    world.start()
    world.append(2)
    world.flush()
    world.append(3)


def run_until_cut(cut_at: int | None) -> tuple[World, FaultyStorage]:
    inner = FaultyStorage()
    world = World(EncryptedStorage(inner, SOURCE))
    inner.steps.clear()
    inner.cut_at = cut_at
    try:
        script(world)
    except PowerCut:
        assert cut_at is not None
    return world, inner


STEPS = run_until_cut(None)[1].steps


def values_in(storage: EncryptedStorage) -> list[bytes | None]:
    return [record.value for record in LogFolder(storage, "t-0")]


@pytest.mark.parametrize(("remains", "seed"), [(Remains.LOST, 0), (Remains.KEPT, 0), (Remains.TORN, 1)])
def test_a_power_cut_at_any_step_loses_nothing_flushed_and_invents_nothing(remains: Remains, seed: int) -> None:
    assert {step.kind for step in STEPS} >= {"create", "append", "truncate", "sync", "rename", "sync_folder"}
    for cut_at in range(1, len(STEPS) + 1):
        world, inner = run_until_cut(cut_at)
        after = World(EncryptedStorage(inner.after_cut(remains, random.Random(1000 * seed + cut_at)), SOURCE))
        try:
            after.start()
            if after.manager.partition_folders().get(KEY) is None:
                assert world.lowest == 0, "what was flushed is gone"
                after.manager.create(*KEY, TOPIC_ID)
            end = after.log.end_offset
            assert world.lowest <= end <= max(len(world.values), world.lowest)
            assert after.log.damage == []
            after.values = world.values[:end]
            after.append(2)
            after.flush()
            assert values_in(after.storage) == after.values
            after.stop()
            after.start()
            assert not after.manager.was_unclean
            assert after.log.end_offset == len(after.values)
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {STEPS[cut_at - 1]}")
            raise


def test_no_plain_bytes_reach_the_disk() -> None:
    world, inner = run_until_cut(None)
    for entry in inner.list("t-0"):
        data = inner.read(f"t-0/{entry.name}")
        assert not data or data.startswith(b"kqueue\0E")
        assert b" of " not in data
    assert values_in(world.storage) == world.values
