from __future__ import annotations

import pytest

from kqueue.base.errors import NotLeader, OutOfOrderSequence
from kqueue.broker.replicas.refused_batches import BEHIND_MAX, NOTED_MAX, RefusedBatches
from kqueue.records.batch import BatchHeader, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.tests.broker.replication import KAFKA, started

GAP = OutOfOrderSequence("a gap")
SEQUENCE_MAX = 2**31 - 1


def batch(sequence: int, producer: int = 7, epoch: int = 0) -> memoryview:
    builder = BatchBuilder(producer_id=producer, epoch=epoch, base_sequence=sequence)
    builder.append(1_700_000_000_000, None, b"%d" % sequence)
    return memoryview(builder.build())


def header(sequence: int, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return read_header(batch(sequence, producer, epoch))


def is_behind(refused: RefusedBatches, partition: str, batch_header: BatchHeader) -> bool:
    try:
        refused.check(partition, batch_header, GAP)
    except NotLeader:
        return True
    return False


def test_batch_behind_a_refused_one_is_refused_alike() -> None:
    refused = RefusedBatches()
    refused.note("p", header(10))
    for other in (header(12, epoch=1), header(12, producer=8), header(10), header(9)):
        assert not is_behind(refused, "p", other)
    assert not is_behind(refused, "q", header(12))
    assert is_behind(refused, "p", header(12))


def test_a_gap_that_stays_is_reported_in_the_end() -> None:
    refused = RefusedBatches()
    refused.note("p", header(10))
    assert [is_behind(refused, "p", header(11)) for _ in range(BEHIND_MAX + 1)] == [True] * BEHIND_MAX + [False]


def test_the_first_refused_batch_counts_until_it_is_sent_again() -> None:
    refused = RefusedBatches()
    for sequence in (SEQUENCE_MAX, 2, 3):
        refused.note("p", header(sequence))
    assert is_behind(refused, "p", header(1))
    refused.note("p", header(SEQUENCE_MAX - 5))
    assert is_behind(refused, "p", header(SEQUENCE_MAX - 3))


def test_batches_without_a_producer_are_not_noted_and_the_oldest_are_forgotten() -> None:
    refused = RefusedBatches()
    refused.note("p", header(-1, producer=-1, epoch=-1))
    for producer in range(NOTED_MAX):
        refused.note("p", header(0, producer))
    refused.note("p", header(0, 0))
    refused.note("p", header(0, NOTED_MAX))
    assert [is_behind(refused, "p", header(1, producer)) for producer in (0, 1, 2, NOTED_MAX)] == [
        True, False, True, True,
    ]  # fmt: skip


def test_a_leader_keeps_the_order_of_batches_in_flight_while_it_was_none() -> None:
    """A crash comes after batch 1 was appended, and before it was answered. librdkafka#4953."""
    members = started(KAFKA, count=1)
    leader = members.partition(1)

    def append(sequence: int) -> bool:
        data = batch(sequence)
        return leader.append(data, read_header(data)).duplicate

    append(0)
    append(1)
    members.let_lead(1, False)
    for sequence in (1, 2, 3):
        with pytest.raises(NotLeader):
            append(sequence)
    members.let_lead(1)
    with pytest.raises(NotLeader, match="was not led here when the batch before came"):
        append(4)
    assert [append(sequence) for sequence in (1, 2, 3, 4)] == [True, False, False, False]
    for _ in range(BEHIND_MAX - 1):
        with pytest.raises(NotLeader):
            append(9)
    with pytest.raises(OutOfOrderSequence):
        append(9)
