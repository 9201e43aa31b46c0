"""Moves of logs beside cleaning: neither removes what the other needs."""

from __future__ import annotations

import pytest

from kqueue.base.errors import ReplicaNotAvailable
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.broker.upkeep.cleanup_broker import CHECK_MS, fill, latest
from kqueue.tests.log.two_folders import append, check_records, place_of, run, start


def test_retention_waits_for_a_move_and_is_made_up_for() -> None:
    rate = {"replica_alter_log_dirs_io_max_bytes_per_second": 70_000}
    sim = start(FaultyStorage(), log_retention_check_interval_ms=CHECK_MS, **rate)
    partition = sim.topic("t", segment_bytes="200000", retention_ms="20000").partition(0)
    for _ in range(100):
        append(partition, 1, 40_000)
        sim.settle()
    target = "b" if place_of(sim) == "a" else "a"
    sim.broker.upkeep.moves.alter("t", 0, target)
    run(sim, 30_000)
    assert sim.broker.upkeep.moves.is_copying(("t", 0))
    assert partition.log_start_offset == 0, "everything is too old, but needed"
    deleted = sim.broker.upkeep.deletion.delete_before(sim.broker.topics.get("t"), 0, 50)
    assert sim.result(deleted) == 50
    run(sim, 120_000)
    assert place_of(sim) == target
    assert partition.log_start_offset == 100
    check_records(partition)


def test_a_move_waits_for_a_compaction() -> None:
    sim = start(FaultyStorage(), log_cleaner_enable=True, log_cleaner_backoff_ms=1000)
    partition = sim.topic("t", cleanup_policy="compact", segment_bytes="500").partition(0)
    fill(sim, partition, 30)
    wanted = latest(partition)
    target = "b" if place_of(sim) == "a" else "a"
    while not sim.broker.upkeep.cleanup.is_busy(("t", 0)):
        sim.clock.advance(100)
        sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
    sim.broker.upkeep.moves.alter("t", 0, target)
    assert not sim.broker.upkeep.moves.is_copying(("t", 0))
    run(sim, 20_000)
    assert place_of(sim) == target
    assert latest(partition) == wanted
    fill(sim, partition, 30)
    run(sim, 20_000)
    assert len(latest(partition)) == 5
    assert partition.log.segments[0].size < 500


def test_a_log_that_is_being_recovered_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = start(FaultyStorage())
    sim.topic("t")
    monkeypatch.setattr(sim.broker.replicas, "is_recovering", lambda topic, index: True)
    with pytest.raises(ReplicaNotAvailable):
        sim.broker.upkeep.moves.alter("t", 0, "a")
