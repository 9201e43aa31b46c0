from __future__ import annotations

from kqueue.api.handlers import describe_transactions
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_transactions import DescribeTransactionsRequest


def test_each_id_is_described_or_has_its_error() -> None:
    client = TransactionClient()
    client.add(("t", 1), ("t", 0))
    response = client.ask(DescribeTransactionsRequest(transactional_ids=["tx", "", "no", "tx"]), 0)
    transaction, *errors = response.transaction_states
    assert [(state.transactional_id, state.error_code) for state in errors] == [
        ("", ErrorCode.INVALID_REQUEST),
        ("no", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
    ]
    assert (transaction.error_code, transaction.transactional_id, transaction.transaction_state) == (0, "tx", "Ongoing")
    assert (transaction.producer_id, transaction.producer_epoch) == (client.producer_id, client.epoch)
    assert transaction.transaction_timeout_ms == 60_000
    assert transaction.transaction_start_time_ms == client.sim.broker.scheduler.clock.wall_ms()
    assert [(topic.topic, topic.partitions) for topic in transaction.topics] == [("t", [0, 1])]


def test_an_error_is_reported_for_every_id() -> None:
    request = DescribeTransactionsRequest(transactional_ids=["a", "b"])
    response = describe_transactions.error_response(request, 0, CoordinatorNotAvailable("later"))
    assert [(state.transactional_id, state.error_code) for state in response.transaction_states] == [
        ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
