"""PushTelemetry (key 72): metrics of a client (KIP-714).

Version 0. Served where `kqueue.client.metrics` names a receiver, which gets the decompressed
payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import EVERYBODY
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.base.errors import UnsupportedVersion
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

VERSIONS = (0, 0)
ACCESS = EVERYBODY


def is_served(broker: Broker) -> bool:
    """Return whether this broker has a receiver of metrics."""
    return broker.telemetry.is_enabled


def handle(
    request: PushTelemetryRequest, context: RequestContext
) -> PushTelemetryResponse | DelayedOperation[PushTelemetryResponse]:
    """Check the push and respond when the receiver has it.

    Raises: RequestRefused: why it was not taken.
    """
    telemetry = context.broker.telemetry
    if not telemetry.is_enabled:
        raise UnsupportedVersion("this broker has no receiver of client metrics")
    pushed = telemetry.push(
        bytes(request.client_instance_id),
        context.client_identity(),
        request.subscription_id,
        request.compression_type,
        request.metrics,
        terminating=request.terminating,
        principal=context.principal,
    )
    return wait_for(pushed, _respond)


def _respond(pushed: Promise[None]) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=code_of(pushed.error) if pushed.error else ErrorCode.NONE)
