"""The error of an append to one partition, as it is noted."""

from __future__ import annotations

from kqueue.base.errors import InvalidRecord, NotLeader
from kqueue.broker.produce.partition_append import NO_OFFSET, PartitionAppend
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append as append_values


def test_a_new_append_has_neither_a_result_nor_an_error() -> None:
    records = memoryview(b"abc")
    append = PartitionAppend(3, records)
    assert (append.index, append.appended, append.error) == (3, None, None)
    assert append.records is records


def test_a_failed_append_names_its_error_and_whether_the_leader_moved() -> None:
    append, moved = PartitionAppend(0, None), PartitionAppend(1, None)
    error, not_leader = InvalidRecord("no key"), NotLeader("somebody else leads")
    append.fail(error)
    moved.fail(not_leader, has_moved=True)
    assert (append.error, append.has_moved, append.log_start_offset) == (error, False, NO_OFFSET)
    assert (moved.error, moved.has_moved, moved.log_start_offset) == (not_leader, True, NO_OFFSET)


def test_a_refused_append_names_the_log_start_of_an_open_log_and_opens_no_closed_one() -> None:
    topic = Simulation({"kqueue.storage": "memory"}).topic("t", 2)
    opened, closed = topic.partitions
    append_values(opened, b"a", b"b", b"c")
    opened.log.advance_start(2)
    starts = []
    for partition in (opened, closed):
        append, error = PartitionAppend(partition.index, None), InvalidRecord("no key")
        append.partition = partition
        append.refuse(error)
        assert (append.error, append.has_moved) == (error, False)
        starts.append(append.log_start_offset)
    assert starts == [2, NO_OFFSET]
    assert not closed.is_open
