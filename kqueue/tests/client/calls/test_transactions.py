from __future__ import annotations

import pytest

from kqueue.client import TopicPartition, TransactionDescription, TransactionListing
from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.calls.transactions import (
    AddPartitionsToTxn,
    DescribeTransaction,
    EndTxn,
    FenceProducer,
    InitTransactions,
    ListTransactions,
    TransactionalProducer,
)
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages import describe_transactions, list_transactions
from kqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kqueue.wire.messages.end_txn import EndTxnResponse
from kqueue.wire.messages.init_producer_id import InitProducerIdResponse


def test_filters_need_the_versions_that_know_them() -> None:
    assert ListTransactions().versions == (0, 2)
    assert ListTransactions(["Ongoing"], [7]).versions == (0, 2)
    assert ListTransactions(running_ms=0).versions == (1, 2)
    assert ListTransactions().request(2).duration_filter == -1
    request = ListTransactions(["Ongoing"], [7], 5).request(2)
    assert (request.state_filters, request.producer_id_filters) == (["Ongoing"], [7])
    assert request.duration_filter == 5


def test_transactions_are_listed() -> None:
    transaction = list_transactions.TransactionState(transactional_id="x", producer_id=7, transaction_state="Ongoing")
    response = list_transactions.ListTransactionsResponse(transaction_states=[transaction])
    assert ListTransactions().result(2, response, "b:1") == [TransactionListing("x", 7, "Ongoing")]
    with pytest.raises(BrokerRefused, match="b:1: ListTransactions: COORDINATOR_LOAD_IN_PROGRESS"):
        ListTransactions().result(2, list_transactions.ListTransactionsResponse(error_code=14), "b:1")


def described(**fields: object) -> describe_transactions.DescribeTransactionsResponse:
    state = describe_transactions.TransactionState(
        transactional_id="x",
        transaction_state="Ongoing",
        producer_id=7,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1_000,
        topics=[describe_transactions.TopicData(topic="t", partitions=[1, 0])],
    )
    for name, value in fields.items():
        setattr(state, name, value)
    return describe_transactions.DescribeTransactionsResponse(transaction_states=[state])


def test_a_transaction_is_described() -> None:
    call = DescribeTransaction("x")
    expected = TransactionDescription("x", "Ongoing", 7, 2, 60_000, 1_000, [("t", 0), ("t", 1)])  # type: ignore[list-item]
    assert call.result(0, described(), "b:1") == expected
    assert call.result(0, described(transaction_start_time_ms=-1), "b:1").start_ms is None
    with pytest.raises(BadAnswer, match="is not about transactional id 'x'"):
        call.result(0, described(transactional_id="y"), "b:1")
    with pytest.raises(BrokerRefused, match=r"'x': TRANSACTIONAL_ID_NOT_FOUND .*kqueue transactions list"):
        call.result(0, described(error_code=105), "b:1")


def test_a_producer_is_fenced_by_a_new_epoch() -> None:
    call = FenceProducer("x")
    assert call.request(5).transactional_id == "x"
    response = InitProducerIdResponse(producer_id=7, producer_epoch=3)
    assert call.result(5, response, "b:1") == ProducerIdAndEpoch(7, 3)
    with pytest.raises(BrokerRefused, match="InitProducerId of transactional id 'x': CONCURRENT_TRANSACTIONS"):
        call.result(5, InitProducerIdResponse(error_code=51), "b:1")


PRODUCER = TransactionalProducer("x", 7, 2)


def added(codes: dict[int, int]) -> AddPartitionsToTxnResponse:
    rows = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in codes.items()
    ]
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(name="t", results_by_partition=rows)]
    )


def test_the_partition_that_is_refused_is_named_not_those_that_were_not_tried() -> None:
    call = AddPartitionsToTxn(PRODUCER, [TopicPartition("t", 0), TopicPartition("t", 1)])
    call.result(3, added({0: 0, 1: 0}), "b:1")
    with pytest.raises(BrokerRefused, match="t-1: TOPIC_AUTHORIZATION_FAILED"):
        call.result(3, added({0: 55, 1: 29}), "b:1")
    with pytest.raises(BrokerRefused, match="t-0: OPERATION_NOT_ATTEMPTED"):
        call.result(3, added({0: 55, 1: 55}), "b:1")
    with pytest.raises(BadAnswer, match="is not about the partitions of transactional id 'x'"):
        call.result(3, added({0: 0}), "b:1")


def test_a_transaction_is_begun_and_ended() -> None:
    begin = InitTransactions("x", 1_000)
    assert (begin.request(5).transactional_id, begin.request(5).transaction_timeout_ms) == ("x", 1_000)
    assert begin.result(5, InitProducerIdResponse(producer_id=7, producer_epoch=2), "b:1") == PRODUCER
    with pytest.raises(BrokerRefused, match="'x': INVALID_TRANSACTION_TIMEOUT"):
        begin.result(5, InitProducerIdResponse(error_code=50), "b:1")
    end = EndTxn(PRODUCER, committed=True)
    assert (end.request(4).producer_id, end.request(4).producer_epoch, end.request(4).committed) == (7, 2, True)
    end.result(4, EndTxnResponse(), "b:1")
    with pytest.raises(BrokerRefused, match="EndTxn of transactional id 'x': PRODUCER_FENCED"):
        end.result(4, EndTxnResponse(error_code=90), "b:1")
