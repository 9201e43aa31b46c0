from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.broker.replicas.partition import Partition
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import Record, check_crc, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.thorough import corners, parts

NOW_MS = 1_700_000_000_000


def append(partition: Partition, offset: int, time_ms: int = NOW_MS) -> None:
    batch = build_batch([Record(0, time_ms, None, b"%d" % offset * 20)])
    partition.append(memoryview(batch), read_header(batch))


def records(partition: Partition) -> list[Record]:
    """Return the records that a consumer from the beginning gets."""
    remaining: list[Record] = []
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        data = partition.read_now(offset, 1 << 20).read()
        for position, header in iter_batches(data):
            check_crc(data, position, header)
            remaining += [record for record in iter_records(data, position) if record.offset >= offset]
            offset = header.next_offset
    return remaining


@dataclass
class World:
    """A broker on a disk that fails, and the log starts that its clients were told of."""

    storage: FaultyStorage
    mode: str = "group"
    store: MemoryStore = field(default_factory=MemoryStore)
    seen: int = 0
    asked: int = 0
    appended: int = 0

    def start(self) -> Simulation:
        settings: dict[str, object] = {
            "kqueue.flush": self.mode,
            "log.flush.offset.checkpoint.interval.ms": 500,
            "log.retention.check.interval.ms": 1000,
        }
        return Simulation(settings, storage=self.storage, store=self.store)

    def delete(self, sim: Simulation, offset: int) -> None:
        topic = sim.broker.topics.get("t")
        partition = topic.partition(0)
        self.asked = max(self.asked, offset)
        promise = sim.broker.upkeep.deletion.delete_before(topic, 0, offset)
        while not promise.done:
            self.seen = max(self.seen, partition.log_start_offset)
            assert sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready(), "nothing more will happen"
        self.seen = max(self.seen, promise.result(), partition.log_start_offset)

    def live(self) -> None:
        """Appends; deletions up to within a segment, to its end, of all, flushed or not, and of
        nothing; time for files to go.
        """
        sim = self.start()
        topic = sim.topic("t", segment_bytes="300", file_delete_delay_ms="100")
        for before in (0, 3, 4, 8, 5, 12):
            for _ in range(3):
                append(topic.partition(0), self.appended)
                self.appended += 1
            if before % 3:
                sim.settle()
            self.delete(sim, min(before, topic.partition(0).log_end_offset))
            sim.advance(300)
        sim.stop()

    def expire(self) -> None:
        """Appends, and time for whole segments to become too old."""
        sim = self.start()
        topic = sim.topic("t", segment_bytes="300", retention_ms="5000", file_delete_delay_ms="100")
        partition = topic.partition(0)
        for _ in range(4):
            for _ in range(3):
                append(partition, self.appended, sim.clock.wall_ms())
                self.appended += 1
            sim.settle()
            end_ms = sim.clock.monotonic_ms() + 4000
            while sim.clock.monotonic_ms() < end_ms:
                sim.clock.advance(200)
                sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
                while sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready():
                    self.seen = self.asked = max(self.seen, partition.log_start_offset)
        sim.stop()

    def check(self, remains: Remains, seed: int, *, deletes: bool = True) -> None:
        self.storage = self.storage.after_cut(remains, random.Random(seed))
        sim = self.start()
        if sim.broker.topics.find("t") is None:
            assert self.seen == 0
            return
        partition = sim.broker.topics.partition("t", 0)
        assert self.seen <= partition.log_start_offset <= self.appended
        assert not deletes or partition.log_start_offset <= max(self.asked, self.seen)
        remaining = records(partition)
        assert [record.offset for record in remaining] == list(
            range(partition.log_start_offset, partition.high_watermark)
        )
        assert all(record.value == b"%d" % record.offset * 20 for record in remaining)
        assert not [entry for entry in self.storage.list("t-0") if entry.name.endswith(".deleted")]
        append(partition, partition.log_end_offset)
        sim.settle()


@parts(8)
@pytest.mark.parametrize("mode", corners(["group", "kafka"]))
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_the_log_start_never_goes_back_wherever_the_power_is_cut(mode: str, remains: Remains, part: slice) -> None:
    """S5.1: at every step on the disk in turn: what a client was told of the log start holds, and
    the log is whole from there.
    """
    whole = World(FaultyStorage(), mode)
    whole.live()
    assert whole.seen == 12
    steps = len(whole.storage.steps)
    for cut_at in range(1, steps + 1)[part]:
        world = World(FaultyStorage(cut_at=cut_at), mode)
        with pytest.raises(PowerCut):
            world.live()
        world.check(remains, cut_at)
    whole.check(remains, 0)


@parts(8)
@pytest.mark.parametrize("mode", corners(["group", "kafka"], "kafka"))
@pytest.mark.parametrize("remains", corners([Remains.LOST, Remains.TORN], Remains.TORN))
def test_the_log_start_never_goes_back_after_retention(mode: str, remains: Remains, part: slice) -> None:
    """S5.1"""
    whole = World(FaultyStorage(), mode)
    whole.expire()
    assert whole.seen >= 6
    for cut_at in range(1, len(whole.storage.steps) + 1)[part]:
        world = World(FaultyStorage(cut_at=cut_at), mode)
        with pytest.raises(PowerCut):
            world.expire()
        world.check(remains, cut_at, deletes=False)


def test_a_checkpoint_that_can_not_be_written_is_an_error_and_nothing_is_seen() -> None:
    storage = FaultyStorage()
    sim = Simulation(storage=storage)
    topic = sim.topic("t")
    append(topic.partition(0), 0)
    sim.settle()
    storage.fail("sync", lambda path: "log-start" in path)
    promise = sim.broker.upkeep.deletion.delete_before(topic, 0, 1)
    with pytest.raises(StorageFailed):
        sim.result(promise)
    assert topic.partition(0)._log is None or topic.partition(0).log.start_offset == 0


def test_unflushed_records_are_flushed_before_the_log_start_passes_them() -> None:
    """In kafka mode too, so that no checkpoint points beyond what a power cut leaves of the log."""
    sim = Simulation({"kqueue.flush": "kafka"}, storage=FaultyStorage())
    topic = sim.topic("t")
    append(topic.partition(0), 0)
    log = topic.partition(0).log
    assert log.flushed_offset == 0
    assert sim.result(sim.broker.upkeep.deletion.delete_before(topic, 0, -1)) == 1
    assert log.flushed_offset == 1


def test_a_flush_that_fails_fails_the_deletion() -> None:
    storage = FaultyStorage()
    sim = Simulation({"kqueue.flush": "kafka"}, storage=storage)
    topic = sim.topic("t")
    append(topic.partition(0), 0)
    storage.fail("sync", lambda path: path.endswith(".log"))
    with pytest.raises(KqueueError):
        sim.result(sim.broker.upkeep.deletion.delete_before(topic, 0, 1))


def test_a_deletion_of_a_topic_ends_those_of_its_records() -> None:
    sim = Simulation({"kqueue.flush": "kafka"}, storage=FaultyStorage())
    topic = sim.topic("t")
    append(topic.partition(0), 0)
    promise = sim.broker.upkeep.deletion.delete_before(topic, 0, 1)
    sim.broker.topics.delete("t")
    sim.settle()
    assert promise.done
