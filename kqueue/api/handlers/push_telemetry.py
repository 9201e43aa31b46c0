"""PushTelemetry (key 72): metrics of a client (KIP-714).

Version 0. Served where `kqueue.client.metrics` names a receiver, which gets the decompressed
payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import UnsupportedVersion
from kqueue.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

VERSIONS = (0, 0)


def is_served(broker: Broker) -> bool:
    """Return whether this broker has a receiver of metrics."""
    return broker.telemetry.is_enabled


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    """Check the push and give it to the receiver. Raises RequestRefused: why it was not taken."""
    telemetry = context.broker.telemetry
    if not telemetry.is_enabled:
        raise UnsupportedVersion("this broker has no receiver of client metrics")
    telemetry.push(
        bytes(request.client_instance_id),
        context.client_identity(),
        request.subscription_id,
        request.compression_type,
        request.metrics,
        terminating=request.terminating,
    )
    return PushTelemetryResponse()
