from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.console.messages.schema_values import SchemaSettings
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.tests.console.browser import Browser, Visit, words
from kqueue.tests.spark.value_formats.registry_server import RegistryServer

HOSTILE = "<script>alert(1)</script>/a b"
AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as registry:
        yield registry


@pytest.fixture
def reader(broker: Broker, visit: Visit, registry: RegistryServer) -> Browser:
    """A browser before a console with a registry."""
    return visit(broker.bootstrap, schemas=SchemaSettings(RegistrySettings(registry.url)))


def test_subjects_are_listed_and_filtered(reader: Browser, registry: RegistryServer) -> None:
    for name in ("orders-value", "payments-value", HOSTILE):
        registry.register(name, AVRO)
    assert "orders-value payments-value" in reader.text("/schemas")
    assert "orders-value" not in reader.text("/schemas?q=pay")
    assert "<script>alert" not in reader.get("/schemas").text


def test_a_subject_shows_its_newest_version_and_the_others_on_request(
    reader: Browser, registry: RegistryServer
) -> None:
    registry.register("orders-value", AVRO)
    registry.register("orders-value", 'syntax = "proto3"; message Order {}', "PROTOBUF", [{"name": "money.proto"}])
    newest = reader.text("/schemas/orders-value")
    assert "Version 2 PROTOBUF Id 2; refers to money.proto" in newest
    assert "message Order {}" in newest
    assert '"name": "Order"' in reader.text("/schemas/orders-value?version=1")


def test_a_hostile_subject_is_found_and_escaped(reader: Browser, registry: RegistryServer) -> None:
    registry.register(HOSTILE, AVRO)
    page = reader.get("/schemas/%3Cscript%3Ealert(1)%3C%2Fscript%3E%2Fa%20b")
    assert page.status_code == 200
    assert "<script>alert" not in page.text


@pytest.mark.parametrize(
    "path", ["/schemas/none", "/schemas/orders-value?version=9", "/schemas/orders-value?version=x"]
)
def test_what_is_not_there_is_a_404(reader: Browser, registry: RegistryServer, path: str) -> None:
    registry.register("orders-value", AVRO)
    assert reader.get(path).status_code == 404


def test_a_registry_that_fails_is_a_sentence(reader: Browser, registry: RegistryServer) -> None:
    registry.register("orders-value", AVRO)
    registry.statuses[:] = [401]
    response = reader.get("/schemas")
    assert response.status_code == 503
    assert "the schema registry" in words(response.text)
    registry.statuses[:] = [401]
    assert reader.get("/schemas/orders-value").status_code == 503


def test_without_a_registry_the_page_says_how_to_give_one(browser: Browser) -> None:
    assert "--schema-registry URL" in browser.text("/schemas")
    assert browser.get("/schemas/orders-value").status_code == 404
