"""Partitions that exist are committed together; the others are refused one by one."""

from __future__ import annotations

from kqueue.api.offset_selection import OffsetSelection, Outcomes
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.errors import OffsetMetadataTooLarge
from kqueue.testing.simulation import Simulation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
)


def select(
    partitions: list[int], *, known: bool = True
) -> tuple[OffsetSelection, list[TxnOffsetCommitResponsePartition]]:
    sim = Simulation()
    topic = sim.topic("t", 2)
    requested = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=9) for index in partitions]
    results = [TxnOffsetCommitResponsePartition(partition_index=index) for index in partitions]
    selection = OffsetSelection()
    work = selection.add(
        topic if known else None,
        requested,
        results,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
    run_to_end(work)
    return selection, results


def codes(results: list[TxnOffsetCommitResponsePartition]) -> list[int]:
    return [result.error_code for result in results]


def test_partitions_that_do_not_exist_are_refused() -> None:
    selection, results = select([0, 2, 1, -1])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(results) == [0, unknown, 0, unknown]
    assert [(offset.topic, offset.partition, offset.offset) for offset in selection.offsets] == [
        ("t", 0, 9),
        ("t", 1, 9),
    ]


def test_an_unknown_topic_has_the_error_of_the_version() -> None:
    selection, results = select([0], known=False)
    assert codes(results) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert selection.offsets == []


def test_outcomes_go_to_the_selected_partitions() -> None:
    selection, results = select([0, 2, 1])
    promise: Promise[Outcomes] = Promise()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    selection.settle(promise)
    assert codes(results) == [ErrorCode.COORDINATOR_NOT_AVAILABLE, unknown, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    promise.resolve([None, OffsetMetadataTooLarge()])
    selection.settle(promise)
    assert codes(results) == [0, unknown, ErrorCode.OFFSET_METADATA_TOO_LARGE]
