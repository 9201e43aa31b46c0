"""Answers: JSON in the type that the client accepts, and errors in Confluent's form."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.rest.call import PlainText
from kqueue.schema_registry.rest.media_types import V1_JSON


def answer(body: object, media_type: str = V1_JSON) -> Response:
    """Return a response of status 200. `body`: JSON, or a PlainText, which is sent as it is."""
    return _response(body.text.encode() if isinstance(body, PlainText) else _json(body), 200, media_type)


def error_answer(error: RegistryError, headers: dict[str, str] | None = None) -> Response:
    """Return the response of an error: its number and its sentence."""
    body = _json({"error_code": error.code, "message": str(error)})
    return _response(body, error.status, V1_JSON, headers)


def _json(body: object) -> bytes:
    # Names in an error may be halves of surrogate pairs, which only ASCII can show.
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def _response(body: bytes, status: int, media_type: str, headers: dict[str, str] | None = None) -> Response:
    more: dict[str, Any] = {"cache-control": "no-store", **(headers or {})}
    return Response(body, status, headers=more, media_type=media_type)
