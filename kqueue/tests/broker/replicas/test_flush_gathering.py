from __future__ import annotations

from kqueue.broker.replicas.flush_gathering import TURNS_MAX, AppendCounts
from kqueue.broker.replicas.partition import Partition
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append


def after_flush_of(sim: Simulation, count: int, topic: str = "t") -> Partition:
    """A partition whose last flush served so many appends."""
    partition = sim.topic(topic).partition(0)
    append(partition, b"the first, whose flush creates files")
    sim.settle()
    for number in range(count):
        append(partition, b"%d" % number)
    sim.settle()
    assert partition.log.flushed_offset == count + 1
    return partition


def turns_until_flush(sim: Simulation, most: int = 3 * TURNS_MAX) -> int:
    """The turns of the loop until a flush begins."""
    for turn in range(most):
        sim.broker.scheduler.purgatory.run_ready()
        if sim.jobs.pending:
            return turn
    raise AssertionError(f"no flush began within {most} turns")


def test_append_of_a_lone_producer_is_flushed_at_the_end_of_its_turn() -> None:
    sim = Simulation()
    partition = after_flush_of(sim, 1)
    for number in range(3):
        append(partition, b"%d" % number)
        assert turns_until_flush(sim) == 0
        sim.settle()


def test_flush_waits_for_as_many_appends_as_the_last_one_served() -> None:
    sim = Simulation()
    partition = after_flush_of(sim, 3)
    for number in range(3):
        assert not sim.jobs.pending
        append(partition, b"%d" % number)
        sim.broker.scheduler.purgatory.run_ready()
    assert len(sim.jobs.pending) == 1
    sim.jobs.step()
    assert partition.log.flushed_offset == partition.log.end_offset


def test_flush_waits_for_a_bounded_number_of_turns() -> None:
    sim = Simulation()
    partition = after_flush_of(sim, 100)
    append(partition, b"alone")
    assert turns_until_flush(sim) == TURNS_MAX


def test_logs_wait_at_the_same_time_and_for_their_own_appends() -> None:
    sim = Simulation()
    busy = [after_flush_of(sim, 50, f"busy-{number}") for number in range(5)]
    lone = after_flush_of(sim, 1, "lone")
    for partition in (*busy, lone):
        append(partition, b"a")
    assert turns_until_flush(sim) == 0
    assert len(sim.jobs.pending) == 1
    sim.jobs.step()
    assert lone.log.flushed_offset == lone.log.end_offset
    sim.broker.scheduler.purgatory.run_ready()
    assert turns_until_flush(sim) == TURNS_MAX - 2, "five logs wait no longer than one"
    assert len(sim.jobs.pending) == len(busy)


def test_appends_of_a_running_flush_are_expected_again_with_those_that_wait() -> None:
    counts = AppendCounts()
    counts.waiting += 1
    counts.flush_began()
    counts.waiting += 1
    counts.waiting += 1
    counts.flush_ended()
    assert counts.expects_more(), "two wait, and the producer that was answered may send a third"
    counts.waiting += 1
    assert not counts.expects_more()


def test_expected_appends_decrease_by_one_with_each_flush() -> None:
    counts = AppendCounts()
    for _ in range(3):
        counts.waiting += 1
    waited = []
    for _ in range(4):
        counts.flush_began()
        counts.flush_ended()
        counts.waiting += 1
        waited.append(counts.expects_more())
    assert waited == [True, True, False, False]


def test_follower_that_asks_for_a_flush_does_not_wait() -> None:
    sim = Simulation()
    partition = after_flush_of(sim, 10)
    calls: list[int] = []
    partition.after_flush(append(partition, b"a"), lambda: calls.append(1))
    assert len(sim.jobs.pending) == 1
    sim.settle()
    assert calls == [1]
