"""Producers and open transactions whose records are deleted: the power is cut at every step on the
disk, and what the partition knows of them is what it was told up to its end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kqueue.base.sliced_task import run_to_end
from kqueue.broker.replicas.partition import Partition
from kqueue.log.policies import POLICIES, CommittedOffsets, Drop, LogView
from kqueue.log.producer_state import EndTransactionMarker, ProducerStateManager
from kqueue.log.sealed_segments import SealedSegments
from kqueue.metadata.memory import MemoryStore
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, iter_records, read_header
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.log import helpers, two_folders
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners, parts

SETTINGS: dict[str, object] = {
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
}
OPEN, IDLE, ENDED, RAISED = 9, 8, 7, 6  # producer ids, by what becomes of them
Facts = dict[int, tuple[object, ...]]


def facts(producers: ProducerStateManager) -> Facts:
    """What must not be lost of each producer."""
    return {
        producer_id: (
            one.epoch,
            [batch[:3] for batch in one.batches][-1:],
            one.coordinator_epoch,
            one.transaction_offset,
        )
        for producer_id, one in producers.items()
    }


@dataclass
class World:
    """A broker on a disk that fails; `states[n]` is the producer state of the first n records."""

    storage: FaultyStorage
    mode: str = "group"
    store: MemoryStore = field(default_factory=MemoryStore)
    states: list[tuple[Facts, int]] = field(default_factory=list)
    producers: ProducerStateManager = field(default_factory=ProducerStateManager)
    deleted: int = 0  # the least log start that the end of the script has
    committed: int = 0
    is_compacted: bool = False

    def __post_init__(self) -> None:
        self.states.append((facts(self.producers), self.producers.first_open()))

    def start(self) -> Simulation:
        return Simulation({**SETTINGS, "kqueue.flush": self.mode}, storage=self.storage, store=self.store)

    def put(self, partition: Partition, buf: bytearray, *, client: bool = True) -> None:
        header = read_header(buf)
        # any part of a batch may be on the disk from the moment its write begins
        self._note(buf, header)
        partition.append(memoryview(buf), header, client=client)

    def _note(self, buf: bytearray, header: BatchHeader) -> None:
        offset = len(self.states) - 1
        if header.producer_id >= 0:
            marker = EndTransactionMarker.of(next(iter_records(buf))) if header.is_control else None
            self.producers.apply(header, marker, offset)
        for _ in range(header.last_offset_delta):
            self.states.append(self.states[-1])  # no log ends within a batch
        self.states.append((facts(self.producers), self.producers.first_open()))

    def records(self, sim: Simulation, partition: Partition, count: int = 1, **producer: object) -> None:
        values = [b"%d" % number * 30 for number in range(count)]
        self.put(partition, helpers.batch(*values, time_ms=int(sim.clock.wall_ms()), **producer))

    def end(self, sim: Simulation, partition: Partition, kind: int, producer_id: int, epoch: int) -> None:
        time_ms = int(sim.clock.wall_ms())
        buf = helpers.marker(kind, producer_id, epoch, coordinator_epoch=4, time_ms=time_ms)
        self.put(partition, buf, client=False)

    def begin(self, sim: Simulation, partition: Partition) -> None:
        """Producers of each kind."""
        self.records(sim, partition, producer_id=IDLE, epoch=2, base_sequence=0)
        self.records(sim, partition, 2, producer_id=OPEN, epoch=3, base_sequence=0, transactional=True)
        self.records(sim, partition, producer_id=ENDED, epoch=0, base_sequence=0, transactional=True)
        self.end(sim, partition, COMMIT, ENDED, 0)
        self.records(sim, partition, producer_id=RAISED, epoch=5, base_sequence=0)
        self.end(sim, partition, ABORT, RAISED, 6)
        self.records(sim, partition, producer_id=IDLE, epoch=2, base_sequence=1)

    def watched(self, sim: Simulation, partition: Partition, ms: float) -> None:
        """Let time pass, and note how far records are committed and deleted."""
        end_ms = sim.clock.monotonic_ms() + ms
        self.observe(sim, partition)
        while sim.clock.monotonic_ms() < end_ms:
            sim.clock.advance(100)
            sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
            self.observe(sim, partition)

    def observe(self, sim: Simulation, partition: Partition) -> None:
        while sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready():
            self.deleted = max(self.deleted, partition.log_start_offset)
            self.committed = max(self.committed, partition.log.flushed_offset)

    def check(self, sim: Simulation) -> None:
        topic = sim.broker.topics.find("t")
        if topic is None:
            assert self.committed == 0
            return
        partition = topic.partition(0)
        log = partition.log
        assert max(self.committed, self.deleted) <= log.end_offset < len(self.states)
        expected, first_open = self.states[log.end_offset]
        if self.is_compacted:  # a record that was not flushed may be missing in the middle
            allowed = [state for state, _ in self.states[self.committed : log.end_offset + 1]]
            expected = facts(log.producers) if facts(log.producers) in allowed else expected
        assert facts(log.producers) == expected
        assert log.producers.first_open() == first_open
        stable = max(min(first_open, partition.high_watermark), partition.log_start_offset)
        assert partition.last_stable_offset == stable

    def check_after_cut(self, remains: Remains, seed: int) -> None:
        """At the next start, after another cut, after clean stops, and with what follows."""
        disk = self.storage
        self.storage = disk.after_cut(remains, random.Random(seed))
        sim = self.start()
        self.check(sim)
        self.storage = self.storage.after_cut(Remains.TORN, random.Random(seed + 1))
        sim = self.start()
        self.check(sim)
        for _ in range(2):
            sim.stop()
            sim = self.start()
            self.check(sim)
        topic = sim.broker.topics.find("t")
        if topic is not None:
            self._go_on(sim, topic.partition(0))

    def _go_on(self, sim: Simulation, partition: Partition) -> None:
        """A batch is repeated, and the open transaction is aborted."""
        known, first_open = self.states[partition.log_end_offset]
        if IDLE in known and known[IDLE][1] == [(1, 7, 0)]:
            buf = helpers.batch(b"again", producer_id=IDLE, epoch=2, base_sequence=1)
            assert partition.append(memoryview(buf), read_header(buf)).duplicate
        if OPEN in known and first_open == 1:
            buf = helpers.marker(ABORT, OPEN, 4, coordinator_epoch=4, time_ms=int(sim.clock.wall_ms()))
            partition.append(memoryview(buf), read_header(buf), client=False)
            sim.settle()
            log = partition.log
            [aborted] = log.reader.aborted(log.end_offset - 1, log.end_offset)
            assert (aborted.producer_id, aborted.first_offset) == (OPEN, 1)
            assert log.producers.first_open() > 1


def by_request(world: World) -> None:
    """DeleteRecords, of whole segments, of a part, and of all."""
    sim = world.start()
    partition = sim.topic("t", segment_bytes="300", file_delete_delay_ms="100").partition(0)
    world.begin(sim, partition)
    for offset in (9, 14, -1):
        for _ in range(5):
            world.records(sim, partition)
        world.watched(sim, partition, 0)
        promise = sim.broker.upkeep.deletion.delete_before(sim.broker.topics.get("t"), 0, offset)
        world.watched(sim, partition, 1100)
        assert promise.done
    partition.roll()
    world.watched(sim, partition, 2200)  # the first round of retention takes the rest
    world.records(sim, partition)
    world.watched(sim, partition, 0)


def by_retention(world: World, policies: str = "delete", *, more: bool = True) -> None:
    """All segments become too old, the active one too; twice."""
    sim = world.start()
    partition = sim.topic(
        "t", segment_bytes="300", retention_ms="2000", file_delete_delay_ms="100", cleanup_policy=policies,
        min_cleanable_dirty_ratio="0",
    ).partition(0)  # fmt: skip
    world.begin(sim, partition)
    for _ in range(4):
        world.records(sim, partition)
    world.watched(sim, partition, 5000)
    if more:
        assert world.deleted == partition.log_end_offset, "all is deleted"
        world.records(sim, partition, producer_id=IDLE, epoch=2, base_sequence=2)
        world.watched(sim, partition, 5000)
        world.records(sim, partition)
        world.watched(sim, partition, 0)


def by_retention_and_compaction(world: World) -> None:
    """As `by_retention`, where compaction runs too."""
    by_retention(world, "compact,delete")


def by_compaction(world: World) -> None:
    """Compaction leaves neither records nor markers of the producers, but for empty batches."""
    world.is_compacted = True
    sim = world.start()
    partition = sim.topic(
        "t", segment_bytes="400", cleanup_policy="compact", delete_retention_ms="0", file_delete_delay_ms="100",
        min_cleanable_dirty_ratio="0",
    ).partition(0)  # fmt: skip
    world.records(sim, partition, producer_id=RAISED, epoch=5, base_sequence=0)
    world.end(sim, partition, ABORT, RAISED, 6)
    world.records(sim, partition, 2, producer_id=ENDED, epoch=0, base_sequence=0, transactional=True)
    world.end(sim, partition, COMMIT, ENDED, 0)
    for sequence in range(4):
        world.records(sim, partition, producer_id=IDLE, epoch=2, base_sequence=sequence)
    world.watched(sim, partition, 0)
    partition.roll()
    world.watched(sim, partition, 5000)
    world.records(sim, partition, producer_id=IDLE, epoch=2, base_sequence=4)
    world.watched(sim, partition, 5000)
    partition.roll()
    world.watched(sim, partition, 5000)


Script = Callable[[World], None]


@parts(8)
@pytest.mark.parametrize("mode", corners(["group", "kafka"]))
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
@pytest.mark.parametrize(
    "script", corners([by_request, by_retention, by_retention_and_compaction, by_compaction], by_request, by_compaction)
)
def test_no_producer_is_lost_with_its_records_wherever_the_power_is_cut(
    script: Script, remains: Remains, mode: str, part: slice
) -> None:
    """S5.1: an open transaction stays open, with its first offset; epochs and sequences stay."""
    whole = World(FaultyStorage(), mode)
    script(whole)
    assert whole.deleted > 8 or script is by_compaction, "the records of all producers are deleted"
    for cut_at in range(1, len(whole.storage.steps) + 1)[part]:
        world = World(FaultyStorage(cut_at=cut_at), mode)
        with pytest.raises(PowerCut):
            script(world)
        try:
            world.check_after_cut(remains, cut_at)
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {whole.storage.steps[cut_at - 1]}")
            raise
    whole.check_after_cut(remains, 0)


def test_producers_move_to_another_data_folder_without_their_records() -> None:
    storage = FaultyStorage()
    sim = two_folders.start(storage, log_retention_check_interval_ms=1000)
    partition = sim.topic("t", retention_ms="2000").partition(0)
    world = World(storage)
    world.begin(sim, partition)
    sim.advance(5000)
    end = partition.log_end_offset
    assert partition.log_start_offset == end
    target = "b" if two_folders.place_of(sim) == "a" else "a"
    sim.broker.upkeep.moves.alter("t", 0, target)
    two_folders.run(sim)
    assert two_folders.place_of(sim) == target
    for seed in range(3):
        assert facts(sim.broker.topics.partition("t", 0).log.producers) == world.states[end][0]
        storage = storage.after_cut(Remains.LOST if seed else Remains.TORN, random.Random(seed))
        sim = two_folders.start(storage, sim)
    sim.stop()
    storage.locks.clear()
    assert facts(two_folders.start(storage, sim).broker.topics.partition("t", 0).log.producers) == world.states[end][0]


def test_a_copy_of_the_logs_has_the_producers_of_deleted_records() -> None:
    world, sim, partition = all_expired()
    sim.advance(5000)
    assert partition.log_start_offset == partition.log_end_offset
    target = MemoryStorage()
    run_to_end(sim.logs.copy_to(target))
    copy = Simulation(SETTINGS, storage=target, store=sim.store, clock=sim.clock)
    world.check(copy)


@for_each("clean", [True, False])
def test_an_epoch_whose_records_are_all_deleted_still_has_an_end(clean: bool) -> None:
    """Else a consumer at the log end would reset its position."""
    world, sim, partition = all_expired()
    sim.advance(5000)
    end, epoch = partition.log_end_offset, partition.leader_epoch
    assert partition.log_start_offset == end
    assert partition.epoch_end(epoch) == (epoch, end)
    for seed in range(3):
        if clean:
            sim.stop()
        else:
            world.storage = world.storage.after_cut(Remains.TORN, random.Random(seed))
        sim = world.start()
        partition = sim.broker.topics.partition("t", 0)
        assert partition.leader_epoch == (epoch if clean else epoch + seed + 1)
        for older in range(epoch, partition.leader_epoch + 1):
            assert partition.epoch_end(older).end_offset == end
        assert partition.epoch_end(partition.leader_epoch + 1) == (-1, -1)


# --- what it costs, and what stops it


def all_expired(storage: FaultyStorage | None = None, *, count: int = 12) -> tuple[World, Simulation, Partition]:
    """A partition whose records are all flushed and about to be deleted by age."""
    world = World(storage or FaultyStorage())
    sim = world.start()
    partition = sim.topic("t", segment_bytes="300", retention_ms="2000", file_delete_delay_ms="100").partition(0)
    world.begin(sim, partition)
    for _ in range(count):
        world.records(sim, partition)
        sim.settle()
    return world, sim, partition


def jobs_of(sim: Simulation) -> list[str]:
    """The names of all jobs from now on."""
    names: list[str] = []
    submit = sim.jobs.submit
    sim.jobs.submit = lambda job: (names.append(job.name), submit(job))[1]  # type: ignore[method-assign]
    return names


def kept(names: list[str]) -> int:
    return sum("keep the producers" in name for name in names)


def test_flushed_snapshots_cost_nothing_and_a_roll_for_a_deletion_one_job() -> None:
    _, sim, partition = all_expired()
    names = jobs_of(sim)
    before = partition.log.segments[-2].base
    sim.broker.upkeep.cleanup._drop(partition, sim.broker.topics.get("t"), Drop(before, "a test"))
    sim.settle()
    assert (partition.log_start_offset, kept(names)) == (before, 0)
    sim.advance(5000)
    assert (partition.log_start_offset, kept(names)) == (partition.log_end_offset, 1)
    sim.advance(20_000)
    assert kept(names) == 1


def test_topics_without_producers_need_no_job() -> None:
    sim = Simulation(SETTINGS, storage=FaultyStorage())
    partition = sim.topic("t", retention_ms="2000").partition(0)
    names = jobs_of(sim)
    buf = helpers.batch(b"x", time_ms=int(sim.clock.wall_ms()))
    partition.append(memoryview(buf), read_header(buf))
    sim.advance(5000)
    assert (partition.log_start_offset, kept(names)) == (1, 0)


def test_nothing_is_deleted_while_the_producers_can_not_be_written(caplog: pytest.LogCaptureFixture) -> None:
    world, sim, partition = all_expired()
    world.storage.fail("rename", lambda path: ".snapshot" in path and "deleted" not in path)
    sim.advance(10_000)
    assert partition.log_start_offset == 0 or partition.log.segments.base_offset < partition.log_end_offset
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len([error for error in errors if "producers can't be kept" in error]) == 1
    world.storage.mend()
    sim.advance(2000)
    assert partition.log_start_offset == partition.log_end_offset
    world.storage = world.storage.after_cut(Remains.LOST, random.Random(1))
    world.check(world.start())


class Noting:
    """Lets all records go, the active segment's too, once it has noted in the same partition that
    they go, as a producer with sequences.
    """

    name = "noting"

    def __init__(self) -> None:
        self.partition: Partition | None = None
        self.ranges: list[tuple[int, int]] = []

    def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Drop | None:
        end = log.segments[-1].end_offset
        return Drop(end, "noted", True, self.note) if end > log.segments[0].base_offset else None

    def note(self, segments: SealedSegments) -> None:
        assert self.partition is not None
        buf = helpers.batch(b"noted", producer_id=50, epoch=0, base_sequence=len(self.ranges))
        self.partition.append(memoryview(buf), read_header(buf))
        self.ranges.append((segments.start_offset, segments.end_offset))


def test_a_policy_that_appends_to_its_own_partition_settles() -> None:
    """Each round deletes what was there when it began; the note of it is left to the next round."""
    policy = Noting()
    with POLICIES.added("noting", policy, "a test"):
        sim = Simulation({**SETTINGS, "log.retention.check.interval.ms": 10_000}, storage=FaultyStorage())
        policy.partition = partition = sim.topic("t", cleanup_policy="noting").partition(0)
        buf = helpers.batch(b"first", producer_id=IDLE, epoch=0, base_sequence=0)
        partition.append(memoryview(buf), read_header(buf))
        names = jobs_of(sim)
        for number in range(1, 5):
            sim.advance(10_000)
            assert policy.ranges == [(offset, offset + 1) for offset in range(number)]
            assert (partition.log_start_offset, partition.log_end_offset) == (number, number + 1)
            assert kept(names) <= number
