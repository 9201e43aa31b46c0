from __future__ import annotations

import pytest

from kqueue.base.errors import ThrottlingQuotaExceeded, UnsupportedVersion
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.api_versions import ApiVersionsRequest
from kqueue.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kqueue.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CLIENT_METRICS = 16
NAMED = ApiVersionsRequest(client_software_name="kafka-python", client_software_version="3.0.12")


class Connection:
    """What a handler sees of a connection."""

    client_software = ("", "")
    address = "127.0.0.1:5000"


def subscribe_all(client: SimulatedClient, **configs: str) -> None:
    """Set the subscription ``s``; names have underscores for dots."""
    rows = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="s", configs=rows)
    response = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [row.error_code for row in response.responses] == [0]


def test_a_client_gets_an_id_and_the_subscription_that_matches_its_software() -> None:
    client = SimulatedClient({"kqueue.client.metrics": "memory", "telemetry.max.bytes": 5000})
    subscribe_all(client, metrics="org.apache.kafka.", interval_ms="500", match="client_software_name=kafka-.*")
    connection = Connection()
    client.ask(NAMED, 4, connection=connection)
    response = client.ask(GetTelemetrySubscriptionsRequest(), 0, connection=connection)
    assert response.client_instance_id != bytes(16)
    assert (response.requested_metrics, response.push_interval_ms) == (["org.apache.kafka."], 500)
    assert (response.telemetry_max_bytes, response.delta_temporality) == (5000, True)
    assert response.accepted_compression_types == [4, 3, 1, 2]
    other = client.ask(GetTelemetrySubscriptionsRequest(), 0, connection=Connection())
    assert other.requested_metrics == []
    again = GetTelemetrySubscriptionsRequest(client_instance_id=response.client_instance_id)
    with pytest.raises(ThrottlingQuotaExceeded):
        client.ask(again, 0, connection=connection)


def test_telemetry_apis_are_advertised_only_with_a_receiver() -> None:
    for settings, advertised in (({}, False), ({"kqueue.client.metrics": "memory"}, True)):
        client = SimulatedClient(settings)
        keys = {row.api_key for row in client.ask(NAMED, 4).api_keys}
        assert ({71, 72} <= keys) is advertised
        assert bool({71, 72} & keys) is advertised
    with pytest.raises(UnsupportedVersion):
        SimulatedClient().ask(GetTelemetrySubscriptionsRequest(), 0)
