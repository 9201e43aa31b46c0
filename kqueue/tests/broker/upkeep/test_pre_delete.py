"""Policies that have work done before segments go, in whole brokers under a manual clock."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import pytest

from kqueue.base.errors import JobCancelled
from kqueue.base.jobs import CpuJob
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.upkeep import pre_delete
from kqueue.log.policies import POLICIES, CommittedOffsets, Drop, LogView
from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import ABORT, Record, control_key_value, read_header
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.upkeep.cleanup_broker import CHECK_MS, SEGMENT, SETTINGS, bases, fill, names, offsets
from kqueue.tests.thorough import corners

Kept = dict[int, bytes | None]


class Keeping:
    """Lets all sealed segments go, once their records are in `kept`. `fail`: called before and
    after that, to raise.
    """

    name = "keeping"

    def __init__(self, *, roll_active: bool = False) -> None:
        self.kept: dict[tuple[str, int], Kept] = {}
        self.handed: list[SealedSegments] = []
        self.fail: Callable[[], None] = lambda: None
        self._roll_active = roll_active

    def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Drop | None:
        end = log.segments[-1].end_offset if self._roll_active else log.segments[-1].base_offset
        return Drop(end, "kept", self._roll_active, self.first) if end > log.segments[0].base_offset else None

    def first(self, segments: SealedSegments) -> None:
        self.handed.append(segments)
        self.fail()
        archived = self.kept.setdefault((segments.topic, segments.partition), {})
        for record in segments.records():
            assert archived.get(record.offset, record.value) == record.value, (
                "the same offset is the same record, always"
            )
            archived[record.offset] = record.value
        self.fail()

    def of(self, partition: Partition) -> list[int]:
        return sorted(self.kept.get((partition.topic, partition.index), {}))


@contextlib.contextmanager
def keeping(**facts: bool) -> Iterator[Keeping]:
    policy = Keeping(**facts)
    with POLICIES.added("keeping", policy, "a test"):
        yield policy


@pytest.fixture
def policy() -> Iterator[Keeping]:
    with keeping() as policy:
        yield policy


def sim_with(**settings: object) -> Simulation:
    return Simulation({**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}})


def topic(sim: Simulation, name: str = "t", count: int = 6, policies: str = "keeping", **configs: str) -> Partition:
    partition = sim.topic(name, cleanup_policy=policies, **SEGMENT, **configs).partition(0)
    fill(sim, partition, count)
    return partition


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def step_to(sim: Simulation, what: type) -> None:
    """Let jobs run until the next is of this kind."""
    while not isinstance(sim.jobs.pending[0], what):
        sim.jobs.step()


def ask(sim: Simulation, partition: Partition) -> None:
    """Have the policies asked, and stop before the work runs."""
    sim.broker.upkeep.cleanup.retain(partition)
    step_to(sim, CpuJob)


# --- what goes


def test_only_the_segments_of_a_finished_task_are_deleted(policy: Keeping) -> None:
    sim = sim_with()
    partition = topic(sim)
    assert bases(partition) == [0, 2, 4]
    ask(sim, partition)
    assert bases(partition) == [0, 2, 4]
    assert sim.jobs.step()
    assert policy.of(partition) == [0, 1, 2, 3]
    sim.settle()
    assert (bases(partition), partition.log_start_offset) == ([4], 4)
    [handed] = policy.handed
    description = (
        handed.topic,
        handed.partition,
        handed.topic_id,
        handed.folder,
        handed.start_offset,
        handed.end_offset,
    )
    assert description == ("t", 0, sim.broker.topics.get("t").id, "t-0", 0, 4)
    sim.advance(CHECK_MS * 3)
    assert len(policy.handed) == 1, "what is left is left alone"


def test_the_active_segment_is_rolled_where_it_is_to_go_too() -> None:
    with keeping(roll_active=True) as policy:
        sim = sim_with()
        partition = topic(sim, count=5)
        sim.advance(CHECK_MS)
        assert (policy.of(partition), bases(partition)) == ([0, 1, 2, 3, 4], [5])
        sim.advance(CHECK_MS * 3)
        assert len(policy.handed) == 1


def test_pre_delete_works_with_memory_storage() -> None:
    with keeping() as policy:
        sim = sim_with(kqueue_storage="memory")
        partition = topic(sim)
        sim.advance(CHECK_MS)
        assert (policy.of(partition), bases(partition)) == ([0, 1, 2, 3], [4])


def test_concurrent_appends_do_not_disturb_a_pre_delete_task(policy: Keeping) -> None:
    sim = sim_with()
    partition = topic(sim)
    policy.fail = lambda: fill_now(partition)
    sim.advance(CHECK_MS)
    assert set(policy.of(partition)) | set(offsets(partition)) == set(range(partition.log_end_offset))
    assert policy.handed[0].end_offset == 4


def fill_now(partition: Partition) -> None:
    data = build_batch([Record(0, 0, b"k", b"." * 300)])
    partition.append(memoryview(data), read_header(data))


def test_a_log_start_in_the_middle_of_a_segment_is_where_it_begins(policy: Keeping) -> None:
    sim = sim_with()
    partition = topic(sim)
    sim.result(sim.broker.upkeep.deletion.delete_before(sim.broker.topics.get("t"), 0, 3))
    sim.advance(CHECK_MS)
    assert policy.of(partition) == [3]
    assert policy.handed[0].start_offset == 3


def test_many_segments_are_deleted_in_consecutive_pieces(policy: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pre_delete, "TASK_BYTES_MAX", 900)
    sim = sim_with()
    partition = topic(sim, count=20)
    began = sim.clock.monotonic_ms()
    sim.broker.upkeep.cleanup.retain(partition)
    sim.settle()
    assert sim.clock.monotonic_ms() == began
    assert [len(handed.segments) for handed in policy.handed] == [2, 2, 2, 2, 1]
    assert bases(partition) == [18]


def test_a_segment_above_the_measure_goes_alone(policy: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pre_delete, "TASK_BYTES_MAX", 1)
    sim = sim_with()
    partition = topic(sim)
    sim.advance(CHECK_MS)
    assert [handed.end_offset for handed in policy.handed] == [2, 4]
    assert bases(partition) == [4]


def test_records_of_open_transactions_are_not_deleted(policy: Keeping) -> None:
    sim = sim_with()
    partition = topic(sim)
    open_at = partition.log_end_offset
    data = build_batch([Record(0, 0, b"k", b"." * 300)], producer_id=1, epoch=0, base_sequence=0, transactional=True)
    partition.append(memoryview(data), read_header(data), client=False)
    fill(sim, partition, 6)
    sim.advance(CHECK_MS * 3)
    assert bases(partition)[0] <= open_at
    builder = BatchBuilder(producer_id=1, epoch=0, transactional=True, control=True)
    builder.append(0, *control_key_value(ABORT, 0))
    data = builder.build()
    partition.append(memoryview(data), read_header(data), client=False)
    sim.settle()
    fill(sim, partition, 4)
    sim.advance(CHECK_MS * 3)
    assert bases(partition)[0] > open_at
    assert open_at not in policy.of(partition)
    assert open_at - 1 in policy.of(partition)
    assert open_at + 1 in policy.of(partition)


def test_segments_are_flushed_before_a_pre_delete_task() -> None:
    """Else a power cut would give offsets that were handed over to other records."""
    with keeping() as policy:
        disk = FaultyStorage()
        sim = Simulation({**SETTINGS, "kqueue.flush": "kafka"}, storage=disk)
        partition = topic(sim, flush_messages="1000000")
        seen: list[int] = []
        policy.fail = lambda: seen.append(partition.log.flushed_offset)
        sim.advance(CHECK_MS)
        assert seen[0] >= policy.handed[0].end_offset == 4


# --- what fails


def test_a_failure_is_logged_once_changes_nothing_and_is_retried(
    policy: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    sim = sim_with()
    partition = topic(sim)

    def fail() -> None:
        raise OSError("no room in the cellar")

    policy.fail = fail
    sim.advance(CHECK_MS * 5)
    assert len(policy.handed) == 5
    assert (bases(partition), partition.log_start_offset) == ([0, 2, 4], 0)
    [message] = errors(caplog)
    assert "t-0: cleanup policy 'keeping' of a test failed on offsets 0 to 3, nothing is dropped" in message
    assert "OSError: no room in the cellar" in message
    policy.fail = lambda: None
    sim.advance(CHECK_MS)
    assert (bases(partition), policy.of(partition)) == ([4], [0, 1, 2, 3])
    policy.fail = fail
    fill(sim, partition, 4)
    sim.advance(CHECK_MS)
    assert len(errors(caplog)) == 2, "it had gone well in between"


def test_damage_keeps_the_segments(policy: Keeping, caplog: pytest.LogCaptureFixture) -> None:
    sim = sim_with()
    partition = topic(sim)
    data = sim.storage._files["t-0/00000000000000000002.log"]._data  # type: ignore[attr-defined]
    data[100] ^= 1
    sim.advance(CHECK_MS * 3)
    assert bases(partition) == [0, 2, 4]
    [message] = errors(caplog)
    assert "t-0/00000000000000000002.log, batch at position 0: expected checksum" in message


def test_a_plan_whose_before_delete_is_no_function_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong:
        name = "wrong"

        def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Drop:
            return Drop(log.segments[-1].base_offset, "why", before_delete="archive")  # type: ignore[arg-type]

    with POLICIES.added("wrong", Wrong(), "a test"):
        sim = sim_with()
        partition = topic(sim, policies="wrong")
        sim.advance(CHECK_MS * 2)
        assert bases(partition) == [0, 2, 4]
        [message] = errors(caplog)
        assert "cleanup policy 'wrong' of a test failed" in message
        assert "expected a function or None as before_delete, found 'archive'" in message


# --- how many


def test_tasks_run_one_at_a_time_and_the_next_starts_without_delay(policy: Keeping) -> None:
    sim = sim_with()
    partitions = [topic(sim, name) for name in "abc"]
    for partition in partitions:
        sim.broker.upkeep.cleanup.retain(partition)
        sim.broker.upkeep.cleanup.retain(partition)
    step_to(sim, CpuJob)
    assert [job.name for job in sim.jobs.pending if isinstance(job, CpuJob)] == [
        "cleanup policy 'keeping' of a test: a-0, offsets 0 to 3"
    ]
    sim.settle()
    assert [handed.topic for handed in policy.handed] == ["a", "b", "c"]
    assert [bases(partition) for partition in partitions] == [[4], [4], [4]]


def test_as_many_at_a_time_as_the_setting_says(policy: Keeping) -> None:
    sim = sim_with(kqueue_cleanup_work_max=2)
    for partition in [topic(sim, name) for name in "abc"]:
        sim.broker.upkeep.cleanup.retain(partition)
    step_to(sim, CpuJob)
    running = [job.name.split(",")[0] for job in sim.jobs.pending if isinstance(job, CpuJob)]
    assert running == [f"cleanup policy 'keeping' of a test: {name}-0" for name in "ab"]
    assert sim.broker.upkeep.cleanup.pre_delete_tasks.free_slots == 0


def test_a_failure_does_not_stop_other_tasks(policy: Keeping) -> None:
    sim = sim_with()
    partitions = [topic(sim, name) for name in "ab"]

    def fail() -> None:
        if policy.handed[-1].topic == "a":
            raise OSError("not a")

    policy.fail = fail
    sim.advance(CHECK_MS)
    assert [bases(partition) for partition in partitions] == [[0, 2, 4], [4]]


def test_a_task_of_an_hour_is_logged_once(policy: Keeping, caplog: pytest.LogCaptureFixture) -> None:
    sim = sim_with()
    partition = topic(sim)
    ask(sim, partition)
    job = sim.jobs.pending.popleft()
    sim.advance(3_500_000)
    assert caplog.records == []
    sim.advance(7_200_000)
    [message] = [record.getMessage() for record in caplog.records]
    assert message == "t-0: cleanup policy 'keeping' of a test has been running for an hour"
    sim.jobs.submit(job)
    sim.settle()
    assert bases(partition) == [4]


# --- what comes between


def test_a_log_is_not_compacted_during_its_pre_delete_task(policy: Keeping) -> None:
    sim = sim_with(log_cleaner_threads=2)
    partition = topic(sim, count=12, policies="compact,keeping", min_cleanable_dirty_ratio="0.01")
    key = ("t", 0)
    ask(sim, partition)
    sim.broker.upkeep.cleanup._compact()
    assert sim.broker.upkeep.cleanup.pre_delete_tasks.is_busy(key)
    assert not sim.broker.upkeep.cleanup.cleaner.is_busy(key)
    sim.settle()
    assert not sim.broker.upkeep.cleanup.pre_delete_tasks.is_busy(key)
    assert policy.of(partition) == list(range(10)), "nothing was compacted away before"
    fill(sim, partition, 6)
    sim.broker.upkeep.cleanup._compact()
    assert sim.broker.upkeep.cleanup.cleaner.is_busy(key)
    sim.broker.upkeep.cleanup.retain(partition)
    assert not sim.broker.upkeep.cleanup.pre_delete_tasks.is_busy(key)


@pytest.mark.parametrize("upto", [2, 3, 4, 6])
def test_records_deleted_during_a_task_are_no_error(
    policy: Keeping, caplog: pytest.LogCaptureFixture, upto: int
) -> None:
    sim = sim_with()
    partition = topic(sim)
    ask(sim, partition)
    job = sim.jobs.pending.popleft()
    sim.result(sim.broker.upkeep.deletion.delete_before(sim.broker.topics.get("t"), 0, upto))
    sim.jobs.submit(job)
    sim.settle()
    assert partition.log_start_offset == upto if upto > 4 else partition.log_start_offset in (upto, 4)
    sim.advance(CHECK_MS)
    assert (bases(partition), errors(caplog)) == ([4], [])
    assert set(policy.of(partition)) >= set(range(upto, 4)), "nothing goes unseen that was not deleted on purpose"


def test_other_policies_do_not_wait(policy: Keeping, caplog: pytest.LogCaptureFixture) -> None:
    sim = sim_with()
    partition = topic(sim, policies="keeping,delete", retention_bytes="500")
    sim.broker.upkeep.cleanup.retain(partition)
    step_to(sim, CpuJob)
    job = sim.jobs.pending.popleft()
    sim.settle()
    assert bases(partition) == [2, 4]
    sim.jobs.submit(job)
    sim.advance(CHECK_MS)
    assert (bases(partition), errors(caplog)) == ([4], [])
    assert policy.of(partition) == [2, 3]


def test_a_topic_deleted_and_made_again_meanwhile_keeps_all_that_is_new(
    policy: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    sim = sim_with()
    partition = topic(sim)
    ask(sim, partition)
    job = sim.jobs.pending.popleft()
    sim.broker.topics.delete("t")
    sim.settle()
    again = topic(sim)
    sim.broker.upkeep.cleanup.retain(again)
    assert not any(isinstance(pending, CpuJob) for pending in sim.jobs.pending)
    sim.jobs.submit(job)
    sim.settle()
    assert bases(again) == [0, 2, 4]
    assert policy.kept == {("t", 0): {}}
    sim.advance(CHECK_MS)
    assert (bases(again), policy.of(again), errors(caplog)) == ([4], [0, 1, 2, 3], [])


def test_segments_that_are_others_than_those_that_were_handed_over_stay(policy: Keeping) -> None:
    """A replica that follows another leader may be cut, and filled again."""
    sim = sim_with()
    partition = topic(sim)

    def cut() -> None:
        if len(policy.handed) == 1 and policy.of(partition):
            partition.log.truncate_to(3)
            partition.log_was_cut(partition.log)
            fill_now(partition)
            fill_now(partition)

    policy.fail = cut
    ask(sim, partition)
    sim.jobs.step()
    sim.settle()
    assert bases(partition)[0] == 0
    policy.kept.clear()
    sim.advance(CHECK_MS)
    assert bases(partition)[0] > 2
    assert len(policy.handed) > 1


def test_a_log_that_failed_meanwhile_keeps_what_it_has(policy: Keeping) -> None:
    sim = sim_with()
    partition = topic(sim)
    ask(sim, partition)
    partition.log.abandon()
    sim.settle()
    assert [segment.base for segment in partition.log.segments] == [0, 2, 4]
    assert not sim.broker.upkeep.cleanup.pre_delete_tasks.is_busy(("t", 0))


# --- the end


def test_a_broker_that_stops_cuts_it_short_and_the_next_one_does_it_again(
    policy: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    sim = sim_with()
    partition = topic(sim)
    ask(sim, partition)
    job = sim.jobs.pending.popleft()
    job.finish(None, JobCancelled("the broker stops"))
    sim.advance(CHECK_MS * 3)
    assert (bases(partition), policy.handed, errors(caplog)) == ([0, 2, 4], [], [])
    assert sim.broker.upkeep.cleanup.pre_delete_tasks.free_slots == 0
    sim.stop()
    sim = sim.restarted()
    sim.advance(CHECK_MS)
    assert (bases(sim.broker.topics.partition("t", 0)), policy.of(partition)) == ([4], [0, 1, 2, 3])


@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_power_cut_at_every_step(remains: Remains) -> None:
    """What went had been handed over; what was handed over is done again, and is the same."""
    steps = 0
    for cut_at in range(1, 200):
        with keeping() as policy:
            disk = FaultyStorage()
            sim = Simulation(SETTINGS, storage=disk)
            partition = topic(sim, count=9, file_delete_delay_ms="1000")
            before = len(disk.steps)
            disk.cut_at = before + cut_at
            try:
                sim.advance(CHECK_MS + 2000)
            except PowerCut:
                pass
            else:
                assert policy.of(partition) == list(range(8))
                assert names(sim, sim.broker.topics.get("t"), suffix=".deleted") == []
                steps = cut_at
                break
            sim = Simulation(
                SETTINGS, storage=disk.after_cut(remains, random.Random(cut_at)), store=sim.store, clock=sim.clock
            )
            partition = sim.broker.topics.partition("t", 0)
            remaining = set(offsets(partition))
            assert remaining | set(policy.of(partition)) == set(range(9)), f"cut at step {cut_at}"
            assert remaining in ({8}, set(range(9)))
            sim.advance(CHECK_MS + 2000)
            assert (offsets(partition), policy.of(partition)) == ([8], list(range(8)))
    assert steps > 5, "the cuts came to an end, after the checkpoint and the renames"
