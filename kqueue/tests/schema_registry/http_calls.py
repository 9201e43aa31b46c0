"""Requests to a registry over HTTP, for its tests."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple
from urllib.request import Request

from kqueue.config.http_client import HttpOptions, exchange

OPTIONS = HttpOptions(10_000_000, 30.0)
INT, LONG = ({"schema": f'"{name}"'} for name in ("int", "long"))


class Answered(NamedTuple):
    """An answer. `body`: parsed JSON, or the text of another type."""

    status: int
    body: Any


def call(
    url: str, method: str = "GET", body: object = None, user: str | None = None, options: HttpOptions = OPTIONS
) -> Answered:
    """Send a request. `user`: ``name:password``."""
    headers = {} if body is None else {"content-type": "application/vnd.schemaregistry.v1+json"}
    if user is not None:
        headers["authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    answer = exchange(Request(url, data, headers, method=method), options)
    is_json = "json" in answer.content_type
    return Answered(answer.status, json.loads(answer.body) if is_json else answer.body.decode())
