"""Schemas of a registry, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import RegistryFailed, SchemaRefused
from kqueue.spark.value_formats import registry as module
from kqueue.spark.value_formats.contract import SCHEMA_BYTES_MAX, SchemaText
from kqueue.spark.value_formats.options import value_settings
from kqueue.spark.value_formats.registry import RegisteredSchema, Registry
from kqueue.tests.spark.value_formats.registry_server import RegistryServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    monkeypatch.setattr(module, "RETRY_S", (0.01, 0.01))
    with RegistryServer() as running:
        yield running


def test_subjects_and_their_versions_are_listed(server: RegistryServer) -> None:
    registry = Registry(RegistrySettings(server.url), "avro")
    assert (registry.subjects(), registry.versions("none"), registry.version("none", 1)) == ([], [], None)
    server.register("b-value", '"int"')
    server.register("b-value", 'syntax = "proto3";', "PROTOBUF", [{"name": "money.proto"}])
    server.register("a-value", '"int"')
    assert registry.subjects() == ["a-value", "b-value"]
    assert registry.versions("b-value") == [1, 2]
    assert registry.version("b-value", 1) == RegisteredSchema(1, 1, "AVRO", '"int"', ())
    assert registry.version("b-value", 2) == RegisteredSchema(2, 2, "PROTOBUF", 'syntax = "proto3";', ("money.proto",))


def test_schemas_are_read_by_id_and_by_subject(server: RegistryServer) -> None:
    registry = Registry(RegistrySettings(server.url + "/"), "avro")
    assert server.register("orders-value", '"int"') == 1
    assert server.register("orders-value", '"long"') == 2
    assert registry.newest("orders-value") == SchemaText('"long"')
    assert registry.by_id(1) == SchemaText('"int"')
    server.register("a/b c-value", '"string"')
    assert registry.newest("a/b c-value").text == '"string"'
    with pytest.raises(SchemaRefused, match="has no subject 'none-value'"):
        registry.newest("none-value")
    with pytest.raises(SchemaRefused, match="has no schema 99"):
        registry.by_id(99)
    with pytest.raises(SchemaRefused, match="schema 1 of the registry is AVRO, expected JSON"):
        Registry(RegistrySettings(server.url), "json-schema").by_id(1)


def test_references_come_after_what_they_need(server: RegistryServer) -> None:
    def reference(name: str, subject: str, version: int = 1) -> dict[str, object]:
        return {"name": name, "subject": subject, "version": version}

    server.register("sku", "S")
    server.register("item", "I", references=[reference("Sku", "sku")])
    order = server.register("orders-value", "O", references=[reference("Sku", "sku"), reference("Item", "item")])
    registry = Registry(RegistrySettings(server.url), "avro")
    assert registry.by_id(order) == SchemaText("O", (("Sku", "S"), ("Item", "I")))
    circle = server.register("x", "X", references=[reference("X", "x")])
    gone = server.register("y", "Y", references=[reference("X", "x", 7)])
    wrong = server.register("z", "Z", references=[{"name": "X"}])
    for schema_id, words in ((circle, "in a circle"), (gone, "no version 7 of 'x'"), (wrong, "without name")):
        with pytest.raises(SchemaRefused, match=words):
            registry.by_id(schema_id)


def test_registry_is_authenticated_by_user_or_token_over_a_trusted_connection(tmp_path: Path) -> None:
    with RegistryServer(tmp_path) as server:
        server.register("orders-value", '"int"')
        given = {"subscribe": "orders", "valueFormat": "avro", "valueSchemaRegistry": server.url}
        trusting = given | {"valueSchemaRegistryCa": str(server.trust_file)}
        user = {"valueSchemaRegistryUser": "ann", "valueSchemaRegistryPassword": "s:ecret"}
        for authorization, more in (
            ("Basic YW5uOnM6ZWNyZXQ=", user),
            ("Bearer abc", {"valueSchemaRegistryToken": "abc"}),
        ):
            server.authorization = authorization
            settings = value_settings(trusting | more)
            assert settings is not None
            assert settings.registry is not None
            assert "ecret" not in repr(settings)
            assert "abc" not in repr(settings)
            assert Registry(settings.registry, "avro").newest("orders-value").text == '"int"'
        server.authorization = "Bearer other"
        with pytest.raises(RegistryFailed, match="gives no schema: status 401 Unauthorized"):
            Registry(settings.registry, "avro").newest("orders-value")
        untrusting = value_settings(given)
        assert untrusting is not None
        assert untrusting.registry is not None
        with pytest.raises(RegistryFailed, match="CERTIFICATE_VERIFY_FAILED"):
            Registry(untrusting.registry, "avro").newest("orders-value")


def test_failures_end_in_one_sentence(server: RegistryServer) -> None:
    schema_id = server.register("orders-value", '"int"')
    registry = Registry(RegistrySettings(server.url), "avro")
    server.statuses = [503, 429]
    assert registry.by_id(schema_id).text == '"int"'  # the third try
    server.statuses = [503] * 3
    with pytest.raises(RegistryFailed, match=r"^the schema registry http://localhost:\d+ gives no schema: status 503"):
        registry.by_id(schema_id)
    assert not server.statuses
    with pytest.raises(RegistryFailed, match="status 404"):  # another server than a registry
        Registry(RegistrySettings(server.url + "/x"), "avro").by_id(schema_id)
    server.register("large-value", " " * (SCHEMA_BYTES_MAX + 1))
    with pytest.raises(SchemaRefused, match="no text of at most 1,048,576 characters"):
        registry.newest("large-value")
    server.register("larger-value", " " * (2 * SCHEMA_BYTES_MAX + 1))
    with pytest.raises(RegistryFailed, match="expected at most 2097152 bytes"):
        registry.newest("larger-value")


def test_silent_or_missing_registry_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", (0.01, 0.01))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryFailed, match="timed out"):
            Registry(RegistrySettings(url), "avro", timeout_s=0.1).by_id(1)
    with pytest.raises(RegistryFailed, match="Connection refused"):
        Registry(RegistrySettings(url), "avro").by_id(1)
