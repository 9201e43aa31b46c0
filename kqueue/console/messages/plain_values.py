"""Values of decoders as values of JSON: bytes, times, decimals and keys that are no texts."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack  # type: ignore[import-untyped]


def plain(value: Any) -> Any:
    """Return a decoded value as one of JSON; bytes as ``{"base64": "…"}``, NaN as text.

    Raises: RecursionError: it is nested too deeply.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, msgpack.ExtType):
        return [plain(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    return _scalar(value)


def plain_text(value: Any) -> str:
    """Return a plain value as JSON on one line. Raises: RecursionError, ValueError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _scalar(value: Any) -> Any:
    if isinstance(value, msgpack.ExtType):
        return {"type": value.code, "base64": base64.b64encode(value.data).decode()}
    if isinstance(value, msgpack.Timestamp):
        return {"seconds": value.seconds, "nanoseconds": value.nanoseconds}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID, timedelta)):
        return str(value)
    return repr(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return plain_text(plain(key))
