"""JSON documents of schemas: read within bounds, written on one line."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from kqueue.schema_registry.schemas.contract import InvalidSchema
from kqueue.schema_registry.schemas.limits import DEPTH_MAX, check_text


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number of 64 bits")
    return number


_decode = json.JSONDecoder(parse_constant=_no_constant, parse_float=_number).decode


def read_document(text: str, what: str) -> Any:
    """Return the JSON document of a schema's text, members in their order.

    Args: what: names the schema in messages, such as "The Avro schema".
    Raises: InvalidSchema: no JSON, or beyond the bounds.
    """
    check_text(text)
    try:
        document = _decode(text)
    except RecursionError:
        raise InvalidSchema(f"{what} is nested more than {DEPTH_MAX} deep") from None
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}") from None
    refuse_deep(document, what)
    return document


def refuse_deep(document: Any, what: str) -> None:
    """Raise InvalidSchema if objects and lists are nested more than `DEPTH_MAX` deep."""
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        if not below:
            return
        level = below
    raise InvalidSchema(f"{what} is nested more than {DEPTH_MAX} deep")


def compact(document: Any) -> str:
    """Return a document on one line, without spaces. Raises: InvalidSchema: it can't be stored."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    check_text(text)
    return text


def sorted_members(document: Any) -> Any:
    """Return a document with the members of each object sorted by name."""
    if isinstance(document, dict):
        return {name: sorted_members(document[name]) for name in sorted(document)}
    if isinstance(document, list):
        return [sorted_members(one) for one in document]
    return document
