"""GetTelemetrySubscriptions (key 71): which metrics a client shall push (KIP-714).

Version 0. Served where `kqueue.client.metrics` names a receiver. A zero client instance id gets a
new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import EVERYBODY
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import UnsupportedVersion
from kqueue.broker.client_telemetry.subscriptions import CODEC_IDS
from kqueue.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

VERSIONS = (0, 0)
ACCESS = EVERYBODY


def is_served(broker: Broker) -> bool:
    """Return whether this broker has a receiver of metrics."""
    return broker.telemetry.is_enabled


def handle(request: GetTelemetrySubscriptionsRequest, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription of this client. Raises RequestRefused: it asks too often."""
    telemetry = context.broker.telemetry
    if not telemetry.is_enabled:
        raise UnsupportedVersion("this broker has no receiver of client metrics")
    instance = telemetry.subscribe(bytes(request.client_instance_id), context.client_identity(), context.principal)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(CODEC_IDS),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
