from __future__ import annotations

from typing import Any

import pytest

from kqueue.tests.api.harness import versions_of
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.list_transactions import ListTransactionsRequest


@pytest.fixture
def client() -> TransactionClient:
    """`tx` is ongoing for 5 s, `idle` is empty."""
    client = TransactionClient()
    client.ask(InitProducerIdRequest(transactional_id="idle", transaction_timeout_ms=60_000), 4)
    client.add(("t", 0))
    client.sim.advance(5_000)
    return client


def ids(client: TransactionClient, version: int, **filters: Any) -> list[str]:
    response = client.ask(ListTransactionsRequest(**filters), version)
    assert response.error_code == 0
    return sorted(state.transactional_id for state in response.transaction_states)


@pytest.mark.parametrize("version", versions_of("list_transactions"))
def test_filters_of_states_and_producers(client: TransactionClient, version: int) -> None:
    assert ids(client, version) == ["idle", "tx"]
    assert ids(client, version, state_filters=["Ongoing"]) == ["tx"]
    assert ids(client, version, state_filters=["Ongoing", "Empty"]) == ["idle", "tx"]
    assert ids(client, version, state_filters=["CompleteCommit"]) == []
    assert ids(client, version, producer_id_filters=[client.producer_id]) == ["tx"]
    assert ids(client, version, producer_id_filters=[client.producer_id], state_filters=["Empty"]) == []


@pytest.mark.parametrize("version", versions_of("list_transactions"))
def test_unknown_states_are_named_and_pass_nothing(client: TransactionClient, version: int) -> None:
    response = client.ask(ListTransactionsRequest(state_filters=["ongoing", "Ongoing", "?"]), version)
    assert response.unknown_state_filters == ["ongoing", "?"]
    assert [state.transactional_id for state in response.transaction_states] == ["tx"]
    assert ids(client, version, state_filters=["?"]) == []


@pytest.mark.parametrize("version", [version for version in versions_of("list_transactions") if version >= 1])
def test_a_filter_of_durations(client: TransactionClient, version: int) -> None:
    assert ids(client, version, duration_filter=4_999, state_filters=["Ongoing"]) == ["tx"]
    assert ids(client, version, duration_filter=5_000, state_filters=["Ongoing"]) == []
    assert ids(client, version, duration_filter=-1) == ["idle", "tx"]


def test_a_row_has_the_producer_id_and_the_state(client: TransactionClient) -> None:
    [row] = client.ask(ListTransactionsRequest(state_filters=["Ongoing"]), 0).transaction_states
    assert (row.producer_id, row.transaction_state) == (client.producer_id, "Ongoing")


def test_a_pattern_matches_whole_ids(client: TransactionClient) -> None:
    assert ids(client, 2, transactional_id_pattern="") == ["idle", "tx"]
    assert ids(client, 2, transactional_id_pattern=".*") == ["idle", "tx"]
    assert ids(client, 2, transactional_id_pattern="t.") == ["tx"]
    assert ids(client, 2, transactional_id_pattern="t") == []
    response = client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert (response.error_code, response.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
