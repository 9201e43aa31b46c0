"""A query and its broker are killed again and again, at random: what was produced has come out once, all of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.base.errors import ClientError
from spark_tests.endless import stream
from spark_tests.sending import send

ROOT = Path(__file__).parent.parent
PARTITIONS = 3
KILLS = int(os.environ.get("KQUEUE_KILLS", "1"))
STOPS = int(os.environ.get("KQUEUE_STOPS", "5"))
SEED = int(os.environ.get("KQUEUE_SEED", "7"))
DEADLINE_S = 90


class Producer(threading.Thread):
    """Sends small batches until it is told to stop; counts those that were confirmed, and repeats the others, which may be there twice."""

    def __init__(self, broker: kqueue.Broker, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.rng = rng
        self.enough = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self.enough.wait(0.1):
            values = [b"%d" % (self.sent + number) for number in range(self.rng.randint(1, 5))]
            try:
                send(self.broker, "orders", self.rng.randrange(PARTITIONS), values)
            except (ClientError, RuntimeError):  # it is being restarted
                continue
            self.sent += len(values)


def start(broker: kqueue.Broker, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spark_tests.endless", broker.bootstrap, "orders", str(folder), *more]
    log = (folder / "log").open("ab")
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def kill(query: subprocess.Popen[bytes]) -> None:
    """It, its Java and its workers, which are one group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(query.pid, signal.SIGKILL)
    query.wait()


def batches_done(folder: Path) -> int:
    return len([path for path in (folder / "checkpoint" / "commits").glob("*") if path.name.isdecimal()])


def written(folder: Path) -> list[tuple[int, int, bytes]]:
    """What the sink's own log says was written."""
    found = []
    metadata = folder / "out" / "_spark_metadata"
    entries = [path for path in metadata.iterdir() if not path.name.startswith(".")]
    compact = [int(path.stem) for path in entries if path.suffix == ".compact"]
    since = max(compact, default=-1)
    for path in entries:
        if int(path.stem) < since or (int(path.stem) == since and path.suffix != ".compact"):
            continue
        for line in path.read_text().splitlines()[1:]:
            table = pq.ParquetFile(unquote(urlparse(json.loads(line)["path"]).path)).read()
            found += [(row["partition"], row["offset"], row["value"]) for row in table.to_pylist()]
    return found


def check(broker: kqueue.Broker, producer: Producer, folder: Path) -> None:
    records = [record for number in range(PARTITIONS) for record in broker.topics["orders"].records(number)]
    expected = sorted((record.partition, record.offset, record.value) for record in records)
    assert producer.sent > 20
    assert len(expected) >= producer.sent
    assert sorted(written(folder)) == expected


@pytest.mark.timeout(300)
def test_killed(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with kqueue.Broker(tmp_path / "data", auto_create_topics_enable=False) as broker:
        broker.create_topic("orders", PARTITIONS)
        producer = Producer(broker, random.Random(SEED))
        producer.start()
        for _ in range(KILLS):
            done = batches_done(tmp_path)
            query = start(broker, tmp_path)
            deadline = time.monotonic() + DEADLINE_S
            try:
                while batches_done(tmp_path) < done + 1 + rng.randint(0, 3):
                    assert query.poll() is None, (tmp_path / "log").read_text()[-4000:]
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                broker.restart()
                time.sleep(rng.uniform(0, 1.5))
            finally:
                kill(query)
        producer.enough.set()
        producer.join(DEADLINE_S)
        last = start(broker, tmp_path, "once")
        try:
            assert last.wait(DEADLINE_S) == 0, (tmp_path / "log").read_text()[-4000:]
        finally:
            kill(last)
        check(broker, producer, tmp_path)


def test_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """The same without an end to the process: the query is interrupted wherever it is, while its broker comes and goes."""
    rng = random.Random(SEED)
    with kqueue.Broker(tmp_path / "data", auto_create_topics_enable=False) as broker:
        broker.create_topic("orders", PARTITIONS)
        producer = Producer(broker, random.Random(SEED))
        producer.start()
        for _ in range(STOPS):
            query = stream(spark, broker.bootstrap, "orders", tmp_path)
            time.sleep(rng.uniform(0.2, 2))
            if rng.random() < 0.5:
                broker.restart()
                time.sleep(rng.uniform(0, 0.5))
            query.stop()
        producer.enough.set()
        producer.join(DEADLINE_S)
        assert stream(spark, broker.bootstrap, "orders", tmp_path, once=True).awaitTermination(DEADLINE_S)
        check(broker, producer, tmp_path)
