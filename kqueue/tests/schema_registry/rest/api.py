"""A client of the REST API, without a socket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.rest.app import registry_app

ALL_MEMBERS = {"Confluent-Accept-Unknown-Properties": "true"}
"""The header of clients that take members which they do not know."""


class Api(TestClient):
    """Sends requests, and returns what is in the answers."""

    def answer(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The JSON of an answer of status 200."""
        response = self.request(method, path, json=body, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def error(self, method: str, path: str, body: Any = None, **options: Any) -> int:
        """The number of an error, whose status must be that of the number."""
        response = self.request(method, path, json=body, **options)
        code: int = response.json()["error_code"]
        assert response.status_code == (code if code < 1000 else code // 100)
        assert response.json()["message"]
        assert response.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        return code


@contextlib.contextmanager
def serving(registry: Registry, **options: Any) -> Iterator[Api]:
    """Yield a client. `options`: of `registry_app`."""
    with Api(registry_app(registry, **options), raise_server_exceptions=True) as api:
        yield api
