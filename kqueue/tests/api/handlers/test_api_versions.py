from __future__ import annotations

import sys

import pytest

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.schema import decode, encode
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

TELEMETRY = (71, 72)  # served where there is a receiver of client metrics


def request(name: str = "kqueue-test", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@for_each("version", versions_of("api_versions"))
def test_returns_exactly_the_versions_in_the_handler_table(version: int) -> None:
    response = SimulatedClient().ask(request(), version)
    assert response.error_code == ErrorCode.NONE
    advertised = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert advertised == [
        (row.api.key, *row.versions) for row in handler_table.all_handlers() if row.api.key not in TELEMETRY
    ]
    assert (0, 0, 13) in advertised  # produce from version 0 on: librdkafka turns compression off otherwise


def test_the_first_request_imports_the_handlers_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing all takes longer than one client may keep others waiting."""
    client = SimulatedClient()
    for name in handler_table.handler_names() - {"api_versions"}:
        monkeypatch.delitem(sys.modules, f"kqueue.api.handlers.{name}")
    imported: list[str] = []

    def load(name: str) -> None:
        imported.append(name)
        client.sim.clock.advance(2)

    rows = handler_table.all_handlers()
    monkeypatch.setattr(handler_table, "all_handlers", lambda: rows)
    monkeypatch.setattr(handler_table, "load", load)
    started = client.start(request(), 4)
    assert started.response is None
    assert 0 < len(imported) < 20
    client.sim.settle()
    assert len(imported) == len(handler_table.handler_names()) - 1
    assert started.response.error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_features_are_reported_from_version_3_on() -> None:
    """As Kafka 4.3: version 3 leaves out supported features whose lowest level is 0."""
    client = SimulatedClient()
    assert client.ask(request(), 2).finalized_features == []
    for version, names in (
        (3, ["metadata.version"]),
        (4, ["metadata.version", "transaction.version", "group.version", "share.version", "streams.version"]),
    ):
        response = client.ask(request(), version)
        assert [row.name for row in response.supported_features] == names
        finalized = {row.name: (row.min_version_level, row.max_version_level) for row in response.finalized_features}
        levels = {"metadata.version": 30, "transaction.version": 2}
        levels |= {"group.version": 1, "share.version": 1, "streams.version": 1}
        assert finalized == {name: (level, level) for name, level in levels.items()}
        assert response.finalized_features_epoch >= 0
        assert response.zk_migration_ready is False


@for_each("version", [5, 99, 32767, -1])
def test_an_unknown_version_gets_only_the_range_of_api_versions(version: int) -> None:
    served = handler_table.lookup(18, version)
    response = served.handle(ApiVersionsRequest(), RequestContext(SimulatedClient().sim.broker, version))
    response = decode(ApiVersionsResponse, 0, encode(response, 0))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]


@for_each(
    "name, version, valid",
    [
        ("apache-kafka-java", "4.3.0", True),
        ("a", "1", True),
        ("a.b-c", "1.0-rc.1", True),
        ("", "1", False),
        ("a", "", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a b", "1", False),
        ("a", "1.", False),
        ("a\n", "1", False),
        ("ä", "1", False),
    ],
)
def test_software_names_follow_kafkas_pattern_from_version_3_on(name: str, version: str, valid: bool) -> None:
    for api_version in (3, 4):
        response = SimulatedClient().ask(request(name, version), api_version)
        assert response.error_code == (ErrorCode.NONE if valid else ErrorCode.INVALID_REQUEST)
        assert bool(response.api_keys) is valid
    assert SimulatedClient().ask(request(name, version), 2).error_code == ErrorCode.NONE
