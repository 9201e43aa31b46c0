"""Kills a process with jobs at random times; after restarts each record is present once.

`KQUEUE_KILLS` (default 1): the number of kills; more than one needs `-o faulthandler_timeout=0`.
`KQUEUE_SEED`: the random seed.
"""

from __future__ import annotations

import itertools
import json
import random
import select
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark import killing, running_jobs
from compat_tests.spark.killing import DEADLINE_S, KILLS, SEED
from compat_tests.spark.running_jobs import SOURCE, STAGES, TARGET
from kqueue.demo.events import Event, EventKind, events
from kqueue.demo.flights import Flights
from kqueue.spark.stores import Location, open_store

PARTITIONS = 2
EVENTS = 150
"""Additional records for each kill."""


def produce(broker: kqueue.Broker, told: Iterator[Event]) -> list[Event]:
    sent = list(itertools.islice(told, EVENTS))
    for event in sent:
        broker.topics[SOURCE].produce(event.value, event.key, headers={"kind": event.kind}, timestamp=event.send_ms)
    return sent


def wait_for(stages: set[str], process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the jobs have reported all these stages, or have ended."""
    deadline = time.monotonic() + DEADLINE_S
    assert process.stdout is not None
    while stages and select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        line = process.stdout.readline().decode()
        if not line:
            assert process.wait(DEADLINE_S) == 0, killing.last_words(folder)
            return
        stages.discard(line.split()[0])
    assert not stages, f"no {stages} in {DEADLINE_S} s: {killing.last_words(folder)}"


def there(broker: kqueue.Broker, topic: str) -> list[list[tuple[object, ...]]]:
    return [
        [(one.key, one.value, one.headers, one.timestamp) for one in broker.topics[topic].records(number)]
        for number in range(PARTITIONS)
    ]


def file_rows(place: Location, data: str, *columns: str) -> list[tuple[object, ...]]:
    """Return the rows of all files below a folder, as a plain Parquet reader sees them."""
    store, rows = open_store(place, None), []
    for name in store.names(data):
        if name.endswith(".parquet"):
            with store.open(f"{data}/{name}") as file:
                table = pq.ParquetFile(file).read(columns=list(columns))
                rows += zip(*(table[column].to_pylist() for column in columns), strict=True)
    return sorted(rows)


def check(broker: kqueue.Broker, kept: Location, tables: Location, sent: list[Event]) -> None:
    places = [(number, offset) for number, part in enumerate(there(broker, SOURCE)) for offset in range(len(part))]
    assert len(places) == len(sent)
    assert file_rows(kept, "records", "partition", "offset") == places
    assert there(broker, TARGET) == there(broker, SOURCE)
    assert file_rows(tables, "bronze", "partition", "offset") == places
    kinds = Counter(event.kind for event in sent)
    silver, quarantine = (file_rows(tables, table, "partition", "offset") for table in ("silver", "quarantine"))
    assert sorted(silver + quarantine) == places
    assert len(silver) == kinds[EventKind.VALID]
    assert sum(row[0] for row in file_rows(tables, "gold", "flights")) == len(silver)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.thorough)])
def settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the settings of an object store; {}: a folder."""
    return {} if request.param == "folder" else request.getfixturevalue("s3")


@pytest.mark.timeout(300 + 300 * KILLS)
def test_killed_jobs_lose_and_duplicate_nothing(
    late_spark: Callable[[], SparkSession], broker: kqueue.Broker, settings: dict[str, str], tmp_path: Path
) -> None:
    """The jobs go on in another Spark."""
    rng = random.Random(SEED)
    for topic in (SOURCE, TARGET):
        broker.create_topic(topic, PARTITIONS, retention_ms=-1)
    told = events(itertools.islice(Flights(), EVENTS * KILLS), seed=SEED, late_share=0.02, broken_share=0.02)
    sent: list[Event] = []
    for turn in range(KILLS):
        sent += produce(broker, told)
        stages = {rng.choice(STAGES["ingest"]), "archive" if turn % 2 else "replay"}
        process = killing.start(tmp_path, Path(running_jobs.__file__), broker.bootstrap, tmp_path, json.dumps(settings))
        try:
            wait_for({*stages}, process, tmp_path)
            if "replay" in stages:
                killing.until(
                    lambda: any(there(broker, TARGET)),
                    partial(killing.check_alive, process, tmp_path),
                    "a replayed record",
                )
            time.sleep(rng.uniform(0, 0.5))
        finally:
            killing.kill(process)
    kept, tables = running_jobs.places(tmp_path, settings)
    for job in STAGES:
        running_jobs.run(late_spark(), broker.bootstrap, kept, tables, job, finish=True)
    check(broker, kept, tables, sent)
