from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kqueue.schema_registry.rest_client import (
    RegistryRefused,
    RegistryRestClient,
    RegistrySettings,
    RegistryUnreachable,
    subject_path,
)
from kqueue.tests.spark.value_formats.registry_server import RegistryServer


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


def client(server: RegistryServer, **settings: Any) -> RegistryRestClient:
    return RegistryRestClient(RegistrySettings(server.url, **settings), 10_000, retry_s=(0.01, 0.01))


def test_answer_is_json(server: RegistryServer) -> None:
    server.register("a-value", '"int"')
    assert client(server).get("/subjects") == ["a-value"]


@pytest.mark.parametrize("status", [500, 503, 408, 429])
def test_reading_is_tried_again_when_the_registry_is_busy(server: RegistryServer, status: int) -> None:
    server.statuses = [status, status]
    assert client(server).get("/subjects") == []
    assert len(server.asked) == 3


def test_refusal_has_its_status_and_code_and_is_not_tried_again(server: RegistryServer) -> None:
    with pytest.raises(RegistryRefused) as refused:
        client(server).get(f"{subject_path('none')}/versions/latest")
    assert (refused.value.status, refused.value.code) == (404, 40401)
    assert len(server.asked) == 1


def test_change_is_sent_once(server: RegistryServer) -> None:
    server.statuses = [503]
    with pytest.raises(RegistryRefused):
        client(server).send("GET", "/subjects")
    assert len(server.asked) == 1


def test_registry_that_does_not_answer_is_unreachable() -> None:
    closed = RegistryRestClient(RegistrySettings("http://127.0.0.1:1"), 1_000, retry_s=(0.01,))
    with pytest.raises(RegistryUnreachable) as unreachable:
        closed.get("/subjects")
    assert unreachable.value.may_pass


def test_answer_beyond_the_bound_is_of_no_use(server: RegistryServer) -> None:
    for number in range(2_000):
        server.register(f"subject-{number}", '"int"')
    with pytest.raises(RegistryUnreachable, match="at most 10000 bytes"):
        client(server).get("/subjects")


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(RegistrySettings("http://e.org", "ann", "secret-1", "secret-2"))


def test_name_of_a_subject_is_one_part_of_the_path() -> None:
    assert subject_path("a/b ?c") == "/subjects/a%2Fb%20%3Fc"
