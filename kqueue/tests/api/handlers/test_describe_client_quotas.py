from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRequest, UnsupportedVersion
from kqueue.security.quotas import MatchType, entity_of
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

ENTITIES: list[dict[str, str | None]] = [
    {"user": "ann"},
    {"user": None},
    {"user": "ann", "client-id": "app"},
    {"client-id": "app"},
    {"ip": "10.0.0.1"},
]


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    changes = {
        entity_of(parts.items()): {"connection_creation_rate" if "ip" in parts else "request_percentage": number + 1.0}
        for number, parts in enumerate(ENTITIES)
    }
    client.sim.result(client.sim.broker.security.quotas.alter(changes))
    return client


def described(client: SimulatedClient, *components: ComponentData, strict: bool = False, version: int = 1) -> list[int]:
    response = client.ask(DescribeClientQuotasRequest(components=list(components), strict=strict), version)
    assert (response.error_code, response.error_message) == (0, None)
    quotas = []
    for row in response.entries:
        [value] = row.values
        number = int(value.value) - 1
        assert {part.entity_type: part.entity_name for part in row.entity} == ENTITIES[number]
        quotas.append(number)
    return sorted(quotas)


def of(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


@pytest.mark.parametrize("version", versions_of("describe_client_quotas"))
def test_entities_are_found_by_filters(client: SimulatedClient, version: int) -> None:
    exact, default, of_any = MatchType
    assert described(client, version=version) == [0, 1, 2, 3, 4]
    assert described(client, of("user", exact, "ann"), version=version) == [0, 2]
    assert described(client, of("user", exact, "ann"), strict=True, version=version) == [0]
    assert described(client, of("user", default), version=version) == [1]
    assert described(client, of("user", of_any), of("client-id", of_any), version=version) == [2]
    assert described(client, of("client-id", of_any), strict=True, version=version) == [3]
    assert described(client, of("ip", of_any), version=version) == [4]
    assert described(client, of("ip", exact, "10.0.0.2"), version=version) == []


def test_filters_that_cannot_be_are_refused(client: SimulatedClient) -> None:
    with pytest.raises(InvalidRequest):
        described(client, of("user", MatchType.EXACT))
    with pytest.raises(UnsupportedVersion):
        described(client, of("group", MatchType.ANY))
