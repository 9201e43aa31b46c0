from __future__ import annotations

import pytest

from kqueue.base.errors import OffsetNotAvailable
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.uncommitted_ends import UncommittedEnds
from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation


def append(partition: Partition) -> None:
    batch = build_batch([Record(0, 0, None, b"x")])
    partition.append(memoryview(batch), read_header(batch))


def test_unflushed_end_is_not_committed() -> None:
    sim = Simulation()
    topic = sim.topic("t", 3)
    append(topic.partition(0))
    append(topic.partition(2))
    ends = UncommittedEnds(topic.partitions)
    assert ends.keys == (topic.partition(0), topic.partition(2))
    assert not ends.all_committed()
    ends.check(topic.partition(1))
    with pytest.raises(OffsetNotAvailable, match="up to offset 1"):
        ends.check(topic.partition(2))
    sim.settle()
    assert ends.all_committed()
    ends.check(topic.partition(2))


def test_all_is_visible_where_nothing_is_appended() -> None:
    sim = Simulation()
    ends = UncommittedEnds(sim.topic("t", 2).partitions)
    assert ends.keys == ()
    assert ends.all_committed()


def test_a_log_that_goes_offline_is_not_waited_for() -> None:
    storage = FaultyStorage()
    sim = Simulation(storage=storage)
    partition = sim.topic("t").partition(0)
    append(partition)
    ends = UncommittedEnds([partition])
    storage.fail("sync", lambda path: path.endswith(".log"))
    sim.settle()
    assert ends.all_committed()
    ends.check(partition)


def test_a_deleted_partition_is_not_waited_for() -> None:
    sim = Simulation()
    partition = sim.topic("t").partition(0)
    append(partition)
    ends = UncommittedEnds([partition])
    sim.broker.topics.delete("t")
    sim.jobs.run_all()
    assert ends.all_committed()


def test_n_partitions_are_checked_2n_times_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation()
    topic = sim.topic("t", 100)
    for partition in topic.partitions:
        append(partition)
    ends = UncommittedEnds(topic.partitions)
    looks = 0
    is_committed = Partition.is_committed

    def count(self: Partition, offset: int) -> bool:
        nonlocal looks
        looks += 1
        return is_committed(self, offset)

    monkeypatch.setattr(Partition, "is_committed", count)
    while not ends.all_committed():
        assert sim.broker.scheduler.purgatory.run_ready() or sim.jobs.step()
    assert looks <= 3 * 100 + 200
