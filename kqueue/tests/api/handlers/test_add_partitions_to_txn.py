from __future__ import annotations

from kqueue.api.handlers import add_partitions_to_txn
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

T0, T1 = ("t", 0), ("t", 1)
OLD, NEW = range(4), (4, 5)
C = ErrorCode


def partitions_of(client: TransactionClient) -> set[tuple[str, int]]:
    return set(client.sim.broker.coordinators.transactions.describe("tx").partitions)


@for_each("version", OLD)
def test_partitions_are_added(version: int) -> None:
    client = TransactionClient()
    assert client.add(T0, T1, version=version) == {T0: 0, T1: 0}
    assert client.add(T1, version=version) == {T1: 0}
    assert partitions_of(client) == {T0, T1}


@for_each("version", OLD)
def test_all_or_none(version: int) -> None:
    client = TransactionClient()
    assert client.add(T0, ("t", 2), ("no", 0), ("__consumer_offsets", 0), version=version) == {
        T0: C.OPERATION_NOT_ATTEMPTED,
        ("t", 2): C.UNKNOWN_TOPIC_OR_PARTITION,
        ("no", 0): C.UNKNOWN_TOPIC_OR_PARTITION,
        ("__consumer_offsets", 0): C.TOPIC_AUTHORIZATION_FAILED,
    }
    assert partitions_of(client) == set()
    assert client.add(version=version) == {}


@for_each("version", OLD)
def test_a_fenced_producer(version: int) -> None:
    client = TransactionClient()
    client.epoch += 1
    code = C.PRODUCER_FENCED if version >= 2 else C.INVALID_PRODUCER_EPOCH
    assert client.add(T0, T1, version=version) == {T0: code, T1: code}


def of(client: TransactionClient, indexes: list[int], *, verify: bool, id: str = "tx") -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=id,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        verify_only=verify,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=indexes)],
    )


def codes(client: TransactionClient, version: int, *transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
    response = client.ask(AddPartitionsToTxnRequest(transactions=list(transactions)), version)
    assert response.error_code == 0
    assert [result.transactional_id for result in response.results_by_transaction] == [
        transaction.transactional_id for transaction in transactions
    ]
    return [
        [partition.partition_error_code for topic in result.topic_results for partition in topic.results_by_partition]
        for result in response.results_by_transaction
    ]


@for_each("version", NEW)
def test_several_transactions_are_added_and_verified(version: int) -> None:
    client = TransactionClient()
    missing = C.TRANSACTION_ABORTABLE
    assert codes(client, version, of(client, [0, 1], verify=True)) == [[missing, missing]]
    assert codes(client, version, of(client, [0], verify=False)) == [[0]]
    assert codes(
        client,
        version,
        of(client, [0], verify=True),
        of(client, [1, 0], verify=True),
        of(client, [0, 1], verify=True, id="other"),
        of(client, [0, 7], verify=True),
    ) == [
        [0],
        [missing, 0],
        [C.INVALID_PRODUCER_ID_MAPPING] * 2,
        [C.OPERATION_NOT_ATTEMPTED, C.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert partitions_of(client) == {T0}
    assert codes(client, version) == []


@for_each("version", [*OLD, *NEW])
def test_an_error_of_the_whole_request(version: int) -> None:
    client = TransactionClient()
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
        transactions=[of(client, [0], verify=False)],
    )
    response = add_partitions_to_txn.error_response(request, version, CoordinatorNotAvailable("later"))
    if version >= 4:
        assert response.error_code == C.COORDINATOR_NOT_AVAILABLE
    else:
        [topic] = response.results_by_topic_v3_and_below
        assert [partition.partition_error_code for partition in topic.results_by_partition] == [
            C.COORDINATOR_NOT_AVAILABLE
        ] * 2
