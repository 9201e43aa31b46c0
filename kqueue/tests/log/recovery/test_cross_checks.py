from __future__ import annotations

from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.log.recovery.cross_checks import epoch_contradiction, has_epochs, transaction_contradiction
from kqueue.records.batch import ABORT
from kqueue.storage import MemoryStorage
from kqueue.tests.log.helpers import append, end_transaction, open_log
from kqueue.tests.tables import for_each


def filled() -> Log:
    """Epochs 0 from 0, 2 from 4, 3 from 8; producer 9's transaction from 8 to its marker at 10."""
    log = open_log(MemoryStorage(), segment_bytes=300)
    for number in range(4):
        append(log, b"%d" % number, b"x", leader_epoch=0 if number < 2 else 2)
    append(log, b"a", producer_id=9, epoch=0, base_sequence=0, transactional=True, leader_epoch=3)
    append(log, b"b", producer_id=9, epoch=0, base_sequence=1, transactional=True, leader_epoch=3)
    end_transaction(log, ABORT, 9, leader_epoch=3)
    return log


def epochs(*rows: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache()
    for row in rows:
        made.assign(*row)
    return made


def test_epochs_that_the_batches_confirm_are_right() -> None:
    """S5.3"""
    log = filled()
    assert has_epochs(log.segments)
    assert epoch_contradiction(log.epochs, log.segments) is None
    assert epoch_contradiction(epochs((0, 1), (2, 4), (3, 8)), log.segments) is None, (
        "the log's start may have moved on"
    )
    assert epoch_contradiction(epochs((0, 0), (2, 4), (3, 8), (7, 11)), log.segments) is None, (
        "a leader that wrote nothing yet"
    )
    assert epoch_contradiction(LeaderEpochCache(), log.segments) is None


@for_each(
    "rows",
    [
        ((1, 0), (2, 4), (3, 8)), ((0, 0), (2, 5), (3, 8)), ((0, 0), (2, 4), (3, 6)), ((0, 0), (2, 4), (3, 9)),
        ((0, 0), (2, 4), (4, 8)),
    ],
)  # fmt: skip
def test_epochs_that_the_batches_contradict_are_reported(rows: tuple[tuple[int, int], ...]) -> None:
    wrong = epoch_contradiction(epochs(*rows), list(filled().segments))
    assert wrong is not None
    assert wrong.startswith("epoch ")


RIGHT = AbortedTxn(9, 8, 10, 11)


def contradiction(*rows: AbortedTxn) -> str | None:
    log = filled()
    number = len(log.segments) - 1
    index = log.segments[number].txnindex
    assert index.read() == [RIGHT]
    index.clear()
    for row in rows:
        index.append(row)
    return transaction_contradiction(number, log.segments, log.end_offset)


def test_transactions_that_are_in_the_log_are_right() -> None:
    assert contradiction(RIGHT) is None
    assert contradiction() is None
    log = open_log()
    assert transaction_contradiction(0, log.segments, 0) is None, "without an index there is nothing to contradict"


@for_each(
    "row",
    [
        RIGHT._replace(producer_id=8),
        RIGHT._replace(first_offset=9),
        RIGHT._replace(first_offset=10),
        RIGHT._replace(first_offset=12),
        RIGHT._replace(first_offset=-1),
        RIGHT._replace(last_offset=9),
        RIGHT._replace(last_offset=11),
        RIGHT._replace(last_offset=2**62),
        RIGHT._replace(last_stable_offset=12),
        RIGHT._replace(last_stable_offset=-2),
    ],
)
def test_transactions_that_the_log_contradicts_are_reported(row: AbortedTxn) -> None:
    assert contradiction(row) is not None


def test_transactions_run_in_order_of_their_ends() -> None:
    assert contradiction(RIGHT, RIGHT) is not None
