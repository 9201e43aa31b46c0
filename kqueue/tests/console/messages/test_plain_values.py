from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack  # type: ignore[import-untyped]
import pytest

from kqueue.console.messages.plain_values import plain, plain_text

CASES: list[tuple[Any, Any]] = [
    (b"\x00\xff", {"base64": "AP8="}),
    (math.nan, "nan"),
    (-math.inf, "-inf"),
    (Decimal("1.50"), "1.50"),
    (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00+00:00"),
    (date(2026, 1, 31), "2026-01-31"),
    (timedelta(seconds=1), "0:00:01"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (msgpack.ExtType(5, b"x"), {"type": 5, "base64": "eA=="}),
    (msgpack.Timestamp(1, 2), {"seconds": 1, "nanoseconds": 2}),
    ({1: (2, [None]), b"k": True}, {"1": [2, [None]], '{"base64": "aw=="}': True}),
    (2**100, 2**100),
]


@pytest.mark.parametrize(("value", "expected"), CASES)
def test_values_of_decoders_are_values_of_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert json.loads(plain_text(plain(value))) == expected
