"""A fetch's news of a partition besides its records: epochs, divergence, transactions."""

from __future__ import annotations

import pytest

from kqueue.tests.api.fetch_client import append, end_transaction, fetch, one, parts, transaction, values, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.error_codes import ErrorCode

MODERN = range(4, 19)


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 3)
    return client


@pytest.mark.parametrize("version", range(9, 19))
def test_clients_of_another_epoch_get_an_error(client: SimulatedClient, version: int) -> None:
    client.sim.broker.replicas.host.sole_replica.begin_epoch(5)
    response = fetch(
        client, version, want(current_leader_epoch=4), want(1, current_leader_epoch=6), want(2, current_leader_epoch=5)
    )
    old, new, same = parts(response)
    assert [data.error_code for data in (old, new, same)] == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        0,
    ]
    if version >= 16:
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == (1, 5)
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "127.0.0.1", 9092)]
    else:
        assert old.current_leader.leader_id == -1
        assert response.node_endpoints == []
    assert new.current_leader.leader_id == -1


@pytest.mark.parametrize("version", range(12, 19))
def test_a_diverged_client_gets_the_diverging_epoch(client: SimulatedClient, version: int) -> None:
    broker = client.sim.broker
    for epoch, count in ((2, 3), (5, 2)):
        broker.replicas.host.sole_replica.begin_epoch(epoch)
        for _ in range(count):
            client.produce("t", batch(b"a"))
    for last, offset, expected in ((3, 4, (2, 3)), (2, 4, (2, 3)), (5, 9, (5, 5))):
        data = one(fetch(client, version, want(offset=offset, last_fetched_epoch=last)))
        assert (data.error_code, (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)) == (0, expected)
        assert (data.high_watermark, data.log_start_offset, data.records) == (5, 0, b"")
    matching = one(fetch(client, version, want(offset=3, last_fetched_epoch=2)))
    assert (len(values(matching)), matching.diverging_epoch.epoch) == (2, -1)
    unknown = one(fetch(client, version, want(offset=3, last_fetched_epoch=9)))
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", MODERN)
def test_read_committed_stops_at_open_transactions_and_lists_aborted_ones(
    client: SimulatedClient, version: int
) -> None:
    """Transactions are not served, but a log that Kafka wrote may hold them."""
    append(client, transaction(b"aborted", 1))  # 0
    append(client, transaction(b"open", 2))  # 1
    append(client, batch(b"plain"))  # 2
    end_transaction(client, 1, commits=False)  # 3
    committed = one(fetch(client, version, want(), isolation_level=1))
    assert (committed.last_stable_offset, committed.high_watermark, len(values(committed))) == (1, 4, 1)
    end_transaction(client, 2, commits=True)  # 4
    committed = one(fetch(client, version, want(), isolation_level=1))
    assert (committed.last_stable_offset, len(values(committed))) == (5, 5)
    assert [
        (transaction_data.producer_id, transaction_data.first_offset)
        for transaction_data in committed.aborted_transactions or ()
    ] == [(1, 0)]
    uncommitted = one(fetch(client, version, want()))
    assert (uncommitted.aborted_transactions, len(values(uncommitted))) == (None, 5)
    empty = one(fetch(client, version, want(offset=5), isolation_level=1))
    assert empty.aborted_transactions == []
