"""The copy of a log: every file of a clean stop, byte for byte, whatever the steps."""

from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.future_replica import CHUNK_BYTES, STEP_BYTES, FutureReplica
from kqueue.storage import MemoryStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.log.two_folders import append
from kqueue.tests.tables import for_each


def replica_of(count: int, size: int = 50) -> tuple[Simulation, FutureReplica]:
    sim = Simulation()
    partition = sim.topic("t", segment_bytes="400").partition(0)
    for _ in range(count):
        append(partition, 1, size)
        sim.settle()
    target = MemoryStorage()
    target.make_folder("future")
    target.open("future/partition.metadata", create=True).append(sim.storage.read("t-0/partition.metadata"))
    return sim, FutureReplica(partition.log, target, "future")


def copy(replica: FutureReplica, bytes_max: int = STEP_BYTES) -> int:
    steps = 0
    while (step := replica.next_step(bytes_max)) is not None:
        assert step.size <= bytes_max
        step.run()
        replica.done(step)
        steps += 1
    return steps


@for_each("bytes_max", [STEP_BYTES, 100, 7])
def test_the_copy_is_the_folder_of_a_clean_stop(bytes_max: int) -> None:
    sim, replica = replica_of(20)
    assert replica.copied_offset == 0
    copy(replica, bytes_max)
    assert replica.copied_offset == 20
    assert replica.remaining_bytes == 0
    append(sim.broker.topics.partition("t", 0), 3)
    assert replica.remaining_bytes > 0
    last = replica.last_step()
    last.run()
    replica.done(last)
    recovered = replica.recovered(last)
    assert (recovered.start_offset, recovered.end_offset, replica.copied_offset) == (0, 23, 23)
    sim.stop()
    expected = {entry.name: sim.storage.read(f"t-0/{entry.name}") for entry in sim.storage.list("t-0")}
    copied = {entry.name: replica.target.read(f"future/{entry.name}") for entry in replica.target.list("future")}
    assert copied == expected
    assert [f"{offset:020d}.snapshot" for offset in recovered.snapshots] == sorted(
        name for name in copied if name.endswith(".snapshot")
    )


def test_an_empty_log_is_copied_too() -> None:
    _, replica = replica_of(0)
    assert copy(replica) == 0
    last = replica.last_step()
    last.run()
    assert replica.target.exists("future/00000000000000000000.log")
    assert replica.recovered(last).end_offset == 0


def test_reads_are_of_bounded_size() -> None:
    _, replica = replica_of(1, 3 * CHUNK_BYTES // 4)
    step = replica.next_step()
    assert step is not None
    assert all(region.size <= CHUNK_BYTES for part in step.parts for region in part.regions)


def test_a_file_that_is_gone_is_a_failure() -> None:
    sim, replica = replica_of(20)
    sim.storage.remove("t-0/00000000000000000000.index")
    with pytest.raises(StorageFailed, match="t-0 can't be copied: a file is gone"):
        copy(replica)


def test_a_target_that_lost_bytes_is_a_failure() -> None:
    _, replica = replica_of(20)
    step = replica.next_step(100)
    assert step is not None
    step.run()
    replica.done(step)
    replica.target.open("future/00000000000000000000.log").truncate(10)
    with pytest.raises(StorageFailed, match="has lost bytes"):
        copy(replica)
