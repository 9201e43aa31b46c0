from __future__ import annotations

import pytest

from kqueue.tests.api.harness import SimulatedClient, batch, versions_of
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.tests.tables import for_each
from kqueue.transactions.completion import WAIT_MS_MAX
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.end_txn import EndTxnRequest


@for_each("version", versions_of("end_txn"))
@for_each("commit", [True, False])
def test_a_transaction_ends(version: int, commit: bool) -> None:
    client = TransactionClient()
    client.add(("t", 0), ("t", 1))
    id, epoch = client.producer_id, client.epoch
    response = client.end(version, commit=commit)
    assert response.error_code == ErrorCode.NONE
    assert (response.producer_id, response.producer_epoch) == ((id, epoch + 1) if version >= 5 else (-1, -1))
    assert client.sim.broker.coordinators.transactions.describe("tx").state.value == (
        "CompleteCommit" if commit else "CompleteAbort"
    )
    assert client.sim.broker.topics.partition("t", 1).log_end_offset == 1  # the marker


@for_each("version", versions_of("end_txn"))
def test_a_fenced_producer(version: int) -> None:
    client = TransactionClient()
    epoch = client.epoch
    client.init()
    client.epoch = epoch
    code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    response = client.end(version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@for_each("version", versions_of("end_txn"))
def test_nothing_to_commit(version: int) -> None:
    client = TransactionClient()
    assert client.end(version).error_code == ErrorCode.INVALID_TXN_STATE
    code = ErrorCode.NONE if version >= 5 else ErrorCode.INVALID_TXN_STATE
    assert client.end(version, commit=False).error_code == code


def test_others_are_served_while_markers_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    client = TransactionClient()
    client.add(("t", 0))
    monkeypatch.setattr(client.sim.broker.coordinators.markers, "write", lambda marker, done: None)
    message = EndTxnRequest(
        transactional_id="tx", producer_id=client.producer_id, producer_epoch=client.epoch, committed=True
    )
    ending = client.start(message, 5)
    client.sim.settle()
    other = SimulatedClient(sim=client.sim)
    assert other.produce("t", batch(b"meanwhile")).error_code == ErrorCode.NONE
    client.sim.advance(WAIT_MS_MAX - 1)
    assert not ending.response
    client.sim.advance(1)
    assert (ending.response.error_code, ending.response.producer_epoch) == (ErrorCode.NONE, client.epoch + 1)
    assert client.add(("t", 0)) == {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
