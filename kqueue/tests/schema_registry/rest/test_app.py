from __future__ import annotations

import asyncio
from typing import Any

from kqueue.schema_registry.rest.app import ENDPOINTS, registry_app
from kqueue.tests.schema_registry.rest.api import Api
from kqueue.tests.schema_registry.support import LoggedRegistry


def test_every_endpoint_is_routed(api: Api) -> None:
    for endpoint in ENDPOINTS:
        path = endpoint.path.format(subject="a", version="1", id="1", guid="g")
        response = api.request(endpoint.method, path)
        assert response.status_code != 405, endpoint
        assert "names no resource" not in response.text, endpoint


def test_no_endpoint_is_there_twice() -> None:
    assert len({(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_unknown_path_is_an_error_in_json(api: Api) -> None:
    for path in ("/none", "/subjects/a/b", "/subjects/a/versions/1/2", "/config/a/b", "/contexts/.c/none"):
        assert api.error("GET", path) == 404


def test_slash_at_the_end_makes_no_difference(api: Api) -> None:
    assert api.answer("GET", "/subjects/") == []


def test_path_that_is_not_ascii_is_refused(registry: LoggedRegistry) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/ü", "raw_path": b"/\xfc", "query_string": b"", "headers": []}
    asyncio.run(registry_app(registry)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert b'"error_code":400' in sent[1]["body"]
