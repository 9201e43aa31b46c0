from __future__ import annotations

import pytest

from kqueue.base.errors import UnsupportedVersion
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.handlers.test_describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kqueue.tests.api.handlers.test_incremental_alter_configs import SET, alter, resource
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.list_config_resources import ListConfigResourcesRequest


def listed(client: SimulatedClient, *types: int, version: int = 1) -> list[tuple[int, str]]:
    response = client.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    assert response.error_code == 0
    return [
        (listed_resource.resource_type, listed_resource.resource_name) for listed_resource in response.config_resources
    ]


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("b")
    client.sim.topic("a")
    alter(client, resource(GROUP, "g", (SET, "consumer.session.timeout.ms", "50000")))
    alter(client, resource(CLIENT_METRICS, "m", (SET, "interval.ms", "100")))
    return client


def test_no_types_are_all_types(client: SimulatedClient) -> None:
    assert listed(client) == [
        (TOPIC, "a"),
        (TOPIC, "b"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
        (CLIENT_METRICS, "m"),
        (GROUP, "g"),
    ]


def test_a_type_is_listed_once(client: SimulatedClient) -> None:
    assert listed(client, GROUP, TOPIC, GROUP) == [(TOPIC, "a"), (TOPIC, "b"), (GROUP, "g")]


def test_version_0_lists_client_metrics(client: SimulatedClient) -> None:
    assert listed(client, version=0) == [(CLIENT_METRICS, "m")]


def test_an_unknown_type_is_refused(client: SimulatedClient) -> None:
    with pytest.raises(UnsupportedVersion, match="unknown type of resource 5, expected some of"):
        client.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 5]), 1)


def test_all_brokers_of_a_cluster_are_listed() -> None:
    assert listed(ClusterClient(), BROKER, BROKER_LOGGER) == [
        (kind, id) for kind in (BROKER, BROKER_LOGGER) for id in ("1", "2", "3")
    ]
