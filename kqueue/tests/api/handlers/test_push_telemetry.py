from __future__ import annotations

import pytest

from kqueue.api import handler_table
from kqueue.base.errors import UnknownSubscriptionId, UnsupportedVersion
from kqueue.broker.client_telemetry.receivers import MemoryReceiver
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.client_telemetry.otlp_payload import gauge, payload
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kqueue.wire.messages.push_telemetry import PushTelemetryRequest


def test_pushed_metrics_are_stored() -> None:
    client = SimulatedClient({"kqueue.client.metrics": "memory"})
    known = client.ask(GetTelemetrySubscriptionsRequest(), 0)
    request = PushTelemetryRequest(
        client_instance_id=known.client_instance_id,
        subscription_id=known.subscription_id,
        metrics=payload(gauge("g", 1)),
        terminating=True,
    )
    assert client.ask(request, 0).error_code == ErrorCode.NONE
    receiver = client.sim.broker.telemetry.receiver
    assert isinstance(receiver, MemoryReceiver)
    (push,) = receiver.pushes
    assert (push.client_id, push.address, push.terminating) == ("tester", "127.0.0.1", True)
    assert [metric.name for metric in push.metrics] == ["g"]


def test_errors_are_codes_of_the_response() -> None:
    client = SimulatedClient({"kqueue.client.metrics": "memory"})
    request = PushTelemetryRequest(client_instance_id=b"i" * 16, subscription_id=1)
    with pytest.raises(UnknownSubscriptionId):
        client.ask(request, 0)
    response = handler_table.error_response(request, 0, UnknownSubscriptionId("it changed"))
    assert response.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_push_without_a_receiver_is_unsupported() -> None:
    with pytest.raises(UnsupportedVersion):
        SimulatedClient().ask(PushTelemetryRequest(client_instance_id=b"i" * 16), 0)
