"""A small file in the form of the package's own, for tests that need no real data."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

HEAD = "year,dep_time,carrier,flight,tailnum,time_hour"
ROWS = ("2013,517,UA,15,N1,2013-01-01T10:00:00Z", 'NA,NA,AA,007,NA,"a ""quoted"", text"', "2013,0,UA,15,N1,x")


@pytest.fixture
def flights_file(tmp_path: Path) -> Path:
    file = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("flights.csv", "\n".join((HEAD, *ROWS)) + "\n")
    return file
