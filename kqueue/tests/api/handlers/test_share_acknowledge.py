"""ShareAcknowledge: accept, release, reject, renew, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.api.share_client import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    acquired,
    data_of,
    earliest,
    fill,
)
from kqueue.wire.error_codes import ErrorCode


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t")
    earliest(client)
    return client


@pytest.mark.parametrize("version", versions_of("share_acknowledge"))
def test_each_type(client: SimulatedClient, version: int) -> None:
    fill(client, 5)
    member = Member(client, version=version)
    member.fetch()
    response = member.acknowledge((0, 3, [ACCEPT, RELEASE, REJECT, GAP]))
    assert data_of(response).error_code == 0
    assert acquired(member.fetch()) == [(1, 1, 2)]
    assert data_of(member.acknowledge((1, 1, ACCEPT), (4, 4, RELEASE))).error_code == 0
    assert acquired(member.fetch()) == [(4, 4, 2)]


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(0, 0, RELEASE), (1, 5, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(3, 3, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(-1, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(1, 1, ACCEPT), (0, 0, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, 5)], ErrorCode.INVALID_REQUEST),
        ([(0, 0, RENEW)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_as_a_whole(client: SimulatedClient, batches: Sequence[tuple[int, int, int]], code: ErrorCode) -> None:
    fill(client, 3)
    member = Member(client)
    member.fetch()
    assert data_of(member.acknowledge(*batches)).error_code == code
    assert acquired(Member(client, "m2").fetch()) == [], "nothing was released"
    assert data_of(member.acknowledge((0, 2, ACCEPT))).error_code == 0


def test_records_of_another_member(client: SimulatedClient) -> None:
    fill(client, 2)
    member, other = Member(client), Member(client, "m2")
    member.fetch()
    other.fetch()
    assert data_of(other.acknowledge((0, 1, ACCEPT))).error_code == ErrorCode.INVALID_RECORD_STATE
    assert data_of(member.acknowledge((0, 1, RELEASE))).error_code == 0
    assert data_of(member.acknowledge((0, 1, ACCEPT))).error_code == ErrorCode.INVALID_RECORD_STATE


def test_the_delivery_limit(client: SimulatedClient) -> None:
    earliest(client, share_delivery_count_limit="2")
    fill(client, 1)
    member = Member(client)
    for count in (1, 2):
        assert acquired(member.fetch()) == [(0, 0, count)]
        assert data_of(member.acknowledge((0, 0, RELEASE))).error_code == 0
    assert acquired(member.fetch()) == []


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (7, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_epochs(client: SimulatedClient, epoch: int, code: ErrorCode) -> None:
    fill(client, 2)
    member, other = Member(client), Member(client, "m2")
    assert member.acknowledge((0, 0, ACCEPT), epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.fetch()
    assert member.acknowledge((0, 0, ACCEPT), epoch=epoch).error_code == code
    assert acquired(other.fetch()) == ([(1, 1, 2)] if epoch == -1 else [])


def test_renewals(client: SimulatedClient) -> None:
    fill(client, 2)
    member = Member(client)
    member.fetch()
    client.sim.advance(29_000)
    response = member.acknowledge((0, 0, RENEW), is_renew_ack=True)
    assert data_of(response).error_code == 0
    assert response.acquisition_lock_timeout_ms == 30_000
    client.sim.advance(2_000)
    assert acquired(Member(client, "m2").fetch()) == [(1, 1, 2)]
    assert data_of(member.acknowledge((0, 0, ACCEPT))).error_code == 0


def test_renewals_that_the_group_does_not_allow(client: SimulatedClient) -> None:
    earliest(client, share_renew_acknowledge_enable="false")
    fill(client, 1)
    member = Member(client)
    member.fetch()
    response = member.acknowledge((0, 0, RENEW), is_renew_ack=True)
    assert data_of(response).error_code == ErrorCode.INVALID_RECORD_STATE


def test_unknown_partitions(client: SimulatedClient) -> None:
    client.sim.topic("u")
    member = Member(client)
    member.fetch()
    assert data_of(member.acknowledge((0, 0, ACCEPT), topic="nowhere")).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    code = data_of(member.acknowledge((0, 0, ACCEPT), topic="u")).error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_name_that_is_too_long(client: SimulatedClient) -> None:
    assert Member(client, "m" * 1001).fetch().error_code == ErrorCode.INVALID_REQUEST
    assert Member(client, "").acknowledge((0, 0, ACCEPT), epoch=1).error_code == ErrorCode.INVALID_REQUEST
