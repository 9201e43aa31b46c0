"""S3.3: snapshots and transaction indexes against the log."""

from __future__ import annotations

from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.producer_state import BatchMetadata, ProducerStateEntry, ProducerStateManager
from kqueue.log_tools.verify.state import producer_differences, transaction_differences


def producers(*ids: int, open_from: int = -1) -> ProducerStateManager:
    manager = ProducerStateManager()
    for id in ids:
        producer = ProducerStateEntry(0)
        producer.batches = (BatchMetadata(9, 100 + id, 9, 1000),)
        producer.last_timestamp = 1000
        producer.transaction_offset = open_from
        manager.add(id, producer)
    return manager


def differ(said: ProducerStateManager, shown: ProducerStateManager, *, whole: bool = True) -> list[tuple[str, str]]:
    return list(producer_differences(said, shown, whole=whole))


def test_producers() -> None:
    assert differ(producers(1, 2), producers(1, 2)) == []
    assert differ(producers(1), producers(1, 2)) == [], "a producer may have expired"
    assert len(differ(producers(1), producers(1, 2, open_from=5))) == 2, "not with an open transaction"
    assert differ(producers(1, 2), producers(1), whole=False) == [], "its batches may be gone"
    assert "no producer 2" in differ(producers(1, 2), producers(1))[0][0]


def test_the_coordinator_epoch_of_a_producer_that_came_back() -> None:
    shown, said = producers(1), producers(1)
    shown.by_id[1].coordinator_epoch = 3
    assert differ(said, shown) == []
    said.by_id[1].coordinator_epoch = 2
    assert len(differ(said, shown)) == 1


ONE = AbortedTxn(7, 10, 20, 21)
TWO = AbortedTxn(8, 15, 30, 31)


def compare(said: list[AbortedTxn], *, whole: bool = True, compacted: bool = False) -> list[int | None]:
    return [number for number, _, _ in transaction_differences(said, [ONE, TWO], whole=whole, compacted=compacted)]


def test_transactions() -> None:
    assert compare([ONE, TWO]) == []
    assert compare([ONE]) == [None]
    assert compare([TWO, ONE]) == [1]
    assert compare([ONE, TWO._replace(producer_id=9)]) == [1]
    assert compare([ONE, TWO._replace(first_offset=14)]) == [1]
    assert compare([ONE, TWO._replace(last_stable_offset=15)]) == [1]
    assert compare([ONE, TWO, AbortedTxn(9, 35, 40, 41)]) == [2]


def test_transactions_where_the_log_does_not_show_all() -> None:
    extra = AbortedTxn(9, 5, 40, 41)
    assert compare([ONE, TWO, extra], compacted=True) == []
    assert compare([ONE, TWO, extra], whole=False) == []
    assert compare([ONE._replace(first_offset=3), TWO], whole=False) == []
    assert compare([ONE._replace(producer_id=9), TWO], whole=False) == [0]
