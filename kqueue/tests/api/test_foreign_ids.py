"""Ids of another principal are answered as unknown ones, and stay as they were."""

from __future__ import annotations

import pytest

from kqueue.base.errors import UnknownSubscriptionId
from kqueue.security.principals import Principal
from kqueue.tests.api.fetch_client import parts, request, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.api.share_client import Member
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kqueue.wire.messages.push_telemetry import PushTelemetryRequest

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")


@for_each("version", [7, 12, 17])
def test_a_fetch_session_of_another_principal_is_unknown(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    session = client.ask(request(client, version, want(), session_epoch=0), version, principal=ANN).session_id
    assert session
    named = {"session_id": session, "session_epoch": 1}
    for requested in ((), (want(0, 5),)):
        foreign = client.ask(request(client, version, *requested, **named), version, principal=BOB)
        assert (foreign.error_code, foreign.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    client.produce("t", batch(b"a"))
    own = client.ask(request(client, version, **named), version, principal=ANN)
    assert (own.error_code, own.session_id) == (ErrorCode.NONE, session)
    assert [len(bytes(part.records)) > 0 for part in parts(own)] == [True]


@for_each("epoch", [0, -1])
def test_a_full_fetch_ends_no_session_of_another_principal(epoch: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    session = client.ask(request(client, 12, want(), session_epoch=0), 12, principal=ANN).session_id
    named = {"session_id": session, "session_epoch": epoch}
    assert client.ask(request(client, 12, want(), **named), 12, principal=BOB).session_id != session
    own = client.ask(request(client, 12, session_id=session, session_epoch=1), 12, principal=ANN)
    assert (own.error_code, own.session_id) == (ErrorCode.NONE, session)


def test_a_share_session_of_another_principal_is_unknown() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    client.produce("t", batch(b"a"))
    member = Member(client)
    assert client.ask(member.request(), 2, principal=ANN).error_code == ErrorCode.NONE
    for epoch in (0, 1, -1):
        foreign = client.ask(member.request(epoch), 2, principal=BOB)
        assert (foreign.error_code, foreign.responses) == (ErrorCode.SHARE_SESSION_NOT_FOUND, [])
    for epoch in (1, -1):
        assert member.acknowledge((0, 0, 1), epoch=epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert client.ask(member.request(1), 2, principal=ANN).error_code == ErrorCode.NONE


def test_a_client_instance_of_another_principal_is_unknown() -> None:
    client = SimulatedClient({"kqueue.client.metrics": "memory"})
    known = client.ask(GetTelemetrySubscriptionsRequest(), 0, principal=ANN)
    asked = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=known.client_instance_id), 0, principal=BOB)
    assert asked.client_instance_id != known.client_instance_id
    push = PushTelemetryRequest(client_instance_id=known.client_instance_id, subscription_id=known.subscription_id)
    push.terminating = True
    with pytest.raises(UnknownSubscriptionId):
        client.ask(push, 0, principal=BOB)
    assert client.ask(push, 0, principal=ANN).error_code == ErrorCode.NONE
