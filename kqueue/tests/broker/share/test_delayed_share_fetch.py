"""A ShareFetch until it acquires: what it waits for, and what ends the wait."""

from __future__ import annotations

import pytest

from kqueue.share.share_state import SharePartitionKey
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.api.share_client import (
    ACCEPT,
    RELEASE,
    Member,
    acquired,
    data_of,
    earliest,
    fill,
    give_states,
)
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.wire.error_codes import ErrorCode


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t")
    earliest(client)
    return client


def test_a_fetch_waits_for_records(client: SimulatedClient) -> None:
    member = Member(client)
    assert acquired(member.fetch()) == []
    waiting = member.start(max_wait_ms=500)
    client.sim.settle()
    assert waiting.response is None
    fill(client, 1)
    assert acquired(waiting.response) == [(0, 0, 1)]
    waiting = member.start(max_wait_ms=500)
    client.sim.advance(499)
    assert waiting.response is None
    client.sim.advance(1)
    assert acquired(waiting.response) == []


def test_a_fetch_waits_for_what_another_member_releases(client: SimulatedClient) -> None:
    fill(client, 2)
    first, second = Member(client), Member(client, "m2")
    assert acquired(first.fetch()) == [(0, 1, 1)]
    waiting = second.start(max_wait_ms=500)
    client.sim.settle()
    assert waiting.response is None
    assert data_of(first.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE))).error_code == 0
    client.sim.settle()
    assert acquired(waiting.response) == [(1, 1, 2)]


def test_a_lock_ends(client: SimulatedClient) -> None:
    fill(client, 2)
    first, second = Member(client), Member(client, "m2")
    first.fetch()
    waiting = second.start(max_wait_ms=40_000)
    client.sim.advance(29_999)
    assert waiting.response is None
    client.sim.advance(1)
    client.sim.settle()
    assert acquired(waiting.response) == [(0, 1, 2)]
    assert data_of(first.acknowledge((0, 1, ACCEPT))).error_code == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("fields", [{"max_bytes": 0}, {"max_bytes": -1}, {"max_records": 0}, {"max_records": -1}])
def test_a_fetch_without_room_acquires_nothing(client: SimulatedClient, fields: dict[str, int]) -> None:
    earliest(client)
    fill(client, 3)
    member = Member(client)
    member.fetch(max_records=0)
    assert acquired(member.fetch(min_bytes=0, **fields)) == []
    assert acquired(member.fetch()) == [(0, 2, 1)]


def test_deleted_records_are_skipped(client: SimulatedClient) -> None:
    fill(client, 2, 2)
    topic = client.sim.broker.topics.get("t")
    member = Member(client)
    member.fetch(max_records=1)
    client.sim.result(client.sim.broker.upkeep.deletion.delete_before(topic, 0, 3))
    assert acquired(member.fetch()) == [(3, 3, 1)]
    assert data_of(member.acknowledge((0, 1, ACCEPT), (3, 3, ACCEPT))).error_code == 0


def test_a_partition_with_aborted_records_only_is_skipped() -> None:
    producer = TransactionClient()
    earliest(producer, share_isolation_level="read_committed")
    producer.add(("t", 0))
    own = {"producer_id": producer.producer_id, "epoch": producer.epoch, "base_sequence": 0}
    raw = batch(b"x", b"y", transactional=True, **own)
    producer.produce("t", raw, transactional_id="tx")
    waiting = Member(producer).start(max_wait_ms=1000)
    producer.sim.settle()
    assert waiting.response is None, "the transaction is open"
    producer.end(5, commit=False)
    assert acquired(waiting.response) == [(2, 2, 1)], "its marker alone"


def test_a_fetch_whose_session_has_ended_acquires_nothing(client: SimulatedClient) -> None:
    """Its records would be counted as delivered, and locked, for a member that can't see them."""
    member, other = Member(client), Member(client, "m2")
    waiting = member.start(max_wait_ms=500)
    client.sim.settle()
    member.connection, member.epoch = object(), 0
    assert acquired(member.fetch()) == []
    fill(client, 1)
    client.sim.settle()
    assert acquired(waiting.response) == []
    assert acquired(other.fetch()) == [(0, 0, 1)]


def test_a_wait_can_end_while_a_share_partition_opens(client: SimulatedClient) -> None:
    """The sweep of connections ends it so when the client is gone."""
    topic = client.sim.broker.topics.get("t")
    member = Member(client)
    member.fetch()
    waiting = member.start(max_wait_ms=500)
    client.sim.settle()
    share = client.sim.broker.share
    key = SharePartitionKey("g", topic.id, 0)
    share.close(key)
    share.coordinator.begin_loading(share.coordinator.partitions.of(key.coordinator_key))
    assert waiting.watched is not None
    assert waiting.watched.operation.try_complete(True).responses == []


def test_a_group_without_a_heartbeat_is_told_so_when_its_wait_is_over(
    client: SimulatedClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's answer is the same: UNKNOWN_SERVER_ERROR, after max_wait_ms."""
    fill(client, 1)
    member = Member(client, group="unheard", has_states=False)
    waiting = member.start(max_wait_ms=500)
    client.sim.settle()
    assert waiting.response is None, "a client that is told at once asks again and again"
    client.sim.advance(500)
    response = data_of(waiting.response)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "no state for partition 0 of t" in response.error_message
    assert "ShareGroupHeartbeat" in response.error_message
    assert response.error_message in caplog.text
    earliest(client, "unheard")
    give_states(client, "unheard", ["t"])
    client.sim.advance(500)
    assert acquired(member.fetch()) == [(0, 0, 1)]
