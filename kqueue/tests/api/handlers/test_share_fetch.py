"""ShareFetch and its session, acquisitions and piggybacked acknowledgements."""

from __future__ import annotations

import pytest

from kqueue.share.share_state import SharePartitionKey
from kqueue.tests.api.harness import NOW_MS, SimulatedClient, batch, versions_of
from kqueue.tests.api.share_client import (
    ACCEPT,
    RELEASE,
    RENEW,
    Member,
    acquired,
    data_of,
    earliest,
    fill,
    give_states,
    offsets,
)
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.wire.error_codes import ErrorCode


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t")
    earliest(client)
    return client


@pytest.mark.parametrize("version", versions_of("share_fetch"))
def test_records_are_acquired_by_one_member(client: SimulatedClient, version: int) -> None:
    fill(client, 3, 2)
    first, second = Member(client, version=version), Member(client, "m2", version=version)
    response = first.fetch()
    assert acquired(response) == [(0, 4, 1)]
    assert offsets(response) == [0, 1, 2, 3, 4]
    assert response.acquisition_lock_timeout_ms == 30_000
    assert acquired(second.fetch()) == []
    fill(client, 1)
    assert acquired(second.fetch()) == [(5, 5, 1)]


def test_a_new_group_begins_at_the_end(client: SimulatedClient) -> None:
    fill(client, 3)
    member = Member(client, group="other")
    assert acquired(member.fetch()) == []
    fill(client, 1)
    assert acquired(member.fetch()) == [(3, 3, 1)]


def test_a_group_begins_at_an_age(client: SimulatedClient) -> None:
    earliest(client, "aged", share_auto_offset_reset="by_duration:PT1H")
    fill(client, 2)
    client.sim.advance(3 * 3_600_000)
    from kqueue.tests.api.harness import batch

    client.produce("t", batch(b"x", time_ms=NOW_MS + 3 * 3_600_000))
    assert acquired(Member(client, group="aged").fetch()) == [(2, 2, 1)]


def test_batches_and_records(client: SimulatedClient) -> None:
    fill(client, 3, 3, 3)
    member = Member(client)
    response = member.fetch(max_records=4)
    assert acquired(response) == [(0, 5, 1)]
    assert offsets(response) == [0, 1, 2, 3, 4, 5]
    response = member.fetch(max_records=2, share_acquire_mode=1)
    assert acquired(response) == [(6, 7, 1)]
    assert offsets(response) == [6, 7, 8]
    assert acquired(member.fetch()) == [(8, 8, 1)]


def test_acquired_ranges_have_the_batch_size(client: SimulatedClient) -> None:
    fill(client, 2, 2, 2)
    assert acquired(Member(client).fetch(batch_size=3)) == [(0, 3, 1), (4, 5, 1)]


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


def test_acknowledgements_travel_with_a_fetch(client: SimulatedClient) -> None:
    fill(client, 2, 1)
    member = Member(client)
    assert acquired(member.fetch(max_records=1)) == [(0, 1, 1)]
    response = member.fetch(acks={"t": [(0, 0, ACCEPT), (1, 1, RELEASE)]}, max_records=1)
    data = data_of(response)
    assert data.acknowledge_error_code == 0
    assert acquired(response)[0][0] in (1, 2)
    bad = data_of(member.fetch(acks={"t": [(0, 0, ACCEPT)]}))
    assert bad.acknowledge_error_code == 0, "it is below the start"
    again = data_of(member.fetch(acks={"t": [(9, 9, ACCEPT)]}))
    assert again.acknowledge_error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"epoch": 3}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"epoch": 0, "acks": {"t": [(0, 0, ACCEPT)]}}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(client: SimulatedClient, fields: dict[str, int], code: ErrorCode) -> None:
    assert Member(client).fetch(**fields).error_code == code


@pytest.mark.parametrize("fields", [{"max_bytes": 0}, {"max_bytes": -1}, {"max_records": 0}, {"max_records": -1}])
def test_a_fetch_without_room_acquires_nothing(client: SimulatedClient, fields: dict[str, int]) -> None:
    earliest(client)
    fill(client, 3)
    member = Member(client)
    member.fetch(max_records=0)
    assert acquired(member.fetch(min_bytes=0, **fields)) == []
    assert acquired(member.fetch()) == [(0, 2, 1)]


def test_epochs(client: SimulatedClient) -> None:
    member = Member(client)
    member.fetch()
    assert member.fetch(epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=1).error_code == 0
    assert member.fetch(epoch=0).error_code == 0
    assert member.fetch(epoch=-1).error_code == 0
    assert member.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_last_request_releases_what_the_member_holds(client: SimulatedClient) -> None:
    fill(client, 2)
    first, second = Member(client), Member(client, "m2")
    first.fetch()
    assert first.fetch(epoch=-1).error_code == 0
    assert acquired(second.fetch()) == [(0, 1, 2)]


def test_a_closed_connection_releases_what_its_members_hold(client: SimulatedClient) -> None:
    fill(client, 2)
    first, second = Member(client), Member(client, "m2")
    first.fetch()
    waiting = second.start(max_wait_ms=500)
    client.sim.settle()
    client.sim.broker.share.connection_closed(first.connection)
    client.sim.settle()
    assert acquired(waiting.response) == [(0, 1, 2)]
    assert len(client.sim.broker.share.sessions) == 1


def test_an_unknown_topic(client: SimulatedClient) -> None:
    response = Member(client).fetch(topics=["nowhere"], max_wait_ms=1000)
    assert data_of(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deleted_topic(client: SimulatedClient) -> None:
    fill(client, 1)
    member = Member(client)
    member.fetch()
    assert len(client.sim.broker.share.coordinator) == 1
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.sim.settle()
    assert data_of(member.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert len(client.sim.broker.share.coordinator) == 0


def test_too_many_sessions() -> None:
    client = SimulatedClient({"group.share.max.share.sessions": 1})
    client.sim.topic("t")
    first, second = Member(client), Member(client, "m2")
    assert first.fetch().error_code == 0
    assert second.fetch(epoch=0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert first.fetch(epoch=0).error_code == 0, "its own is replaced"
    first.fetch(epoch=-1)
    assert second.fetch(epoch=0).error_code == 0


def test_a_renewed_lock(client: SimulatedClient) -> None:
    fill(client, 1)
    member = Member(client)
    member.fetch()
    client.sim.advance(20_000)
    renew = {"is_renew_ack": True, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
    assert data_of(member.fetch(acks={"t": [(0, 0, RENEW)]}, **renew)).acknowledge_error_code == 0
    client.sim.advance(29_000)
    assert data_of(member.acknowledge((0, 0, ACCEPT))).error_code == 0


def test_deleted_records_are_skipped(client: SimulatedClient) -> None:
    fill(client, 2, 2)
    topic = client.sim.broker.topics.get("t")
    member = Member(client)
    member.fetch(max_records=1)
    client.sim.result(client.sim.broker.upkeep.deletion.delete_before(topic, 0, 3))
    assert acquired(member.fetch()) == [(3, 3, 1)]
    assert data_of(member.acknowledge((0, 1, ACCEPT), (3, 3, ACCEPT))).error_code == 0


def test_after_a_restart_unacknowledged_records_come_again(client: SimulatedClient) -> None:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t")
    earliest(client)
    fill(client, 5)
    member = Member(client)
    member.fetch()
    assert data_of(member.acknowledge((1, 1, ACCEPT), (2, 2, RELEASE))).error_code == 0
    client.sim.stop()
    client = SimulatedClient(sim=client.sim.restarted())
    assert acquired(Member(client).fetch()) == [(0, 0, 1), (2, 2, 2), (3, 4, 1)]


def test_read_committed_skips_what_was_aborted() -> None:
    producer = TransactionClient()
    earliest(producer)
    earliest(producer, "strict", share_isolation_level="read_committed")
    fill(producer, 1)
    for commit in (False, True, False):
        producer.add(("t", 0))
        own = {"producer_id": producer.producer_id, "epoch": producer.epoch, "base_sequence": 0}
        raw = batch(b"x", b"y", transactional=True, **own)
        assert producer.produce("t", raw, transactional_id="tx").error_code == 0
        assert producer.end(5, commit=commit).error_code == 0
    member = Member(producer, group="strict")
    # 0 | 1-2 aborted, 3 marker | 4-5 committed, 6 marker | 7-8 aborted, 9 marker
    assert acquired(member.fetch(batch_size=1)) == [(0, 0, 1), (3, 3, 1), (4, 5, 1), (6, 6, 1), (9, 9, 1)]
    assert acquired(Member(producer).fetch()) == [(0, 9, 1)]


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
    told = data_of(waiting.response)
    assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "no state for partition 0 of t" in told.error_message
    assert "ShareGroupHeartbeat" in told.error_message
    assert told.error_message in caplog.text
    earliest(client, "unheard")
    give_states(client, "unheard", ["t"])
    client.sim.advance(500)
    assert acquired(member.fetch()) == [(0, 0, 1)]
