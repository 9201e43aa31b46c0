"""A query that writes exactly once is killed in the middle of its batches: each row has come out once.

`KQUEUE_KILLS` (default 1): how often. The finer cuts, at each call to a broker, are those of `kqueue/tests/spark/sink/test_once.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from kqueue.client import LATEST, Client
from spark_tests.copying import stream
from spark_tests.sending import send
from spark_tests.test_sink_batch import records

ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("KQUEUE_KILLS", "1"))
SEED = int(os.environ.get("KQUEUE_SEED", "7"))
DEADLINE_S = 90
PLACES = [("target", 0), ("target", 1)]


def start(broker: kqueue.Broker, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spark_tests.copying", broker.bootstrap, "source", "target", str(folder)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def kill(query: subprocess.Popen[bytes]) -> None:
    """It, its Java and its workers, which are one group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(query.pid, signal.SIGKILL)
    query.wait()


def wait_for_more(client: Client, query: subprocess.Popen[bytes], rows: int, folder: Path) -> int:
    """Until the target has more than so many rows; returns how many."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = sum(one.offset or 0 for one in client.offsets(dict.fromkeys(PLACES, LATEST)).values())
        if found > rows:
            return found
        assert query.poll() is None, (folder / "log").read_text()[-2000:]
        time.sleep(0.002)
    raise AssertionError(f"no more than {rows} rows in {DEADLINE_S} s: {(folder / 'log').read_text()[-2000:]}")


@pytest.mark.timeout(120 + 60 * KILLS)
def test_each_row_comes_out_once(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    broker.create_topic("source", 2)
    broker.create_topic("target", 2)
    sent: list[bytes] = []
    cut = 0
    with Client(broker.bootstrap) as client:
        for turn in range(KILLS):
            values = [b"%d-%d" % (turn, number) for number in range(600)]
            for partition in (0, 1):
                send(broker, "source", partition, values[partition::2], keys=values[partition::2])
            sent += values
            query = start(broker, tmp_path)
            try:
                found = wait_for_more(client, query, sum(map(len, records(broker, "target").values())), tmp_path)
                found = wait_for_more(client, query, found + rng.randrange(100, 300), tmp_path)
            finally:
                kill(query)
            cut += found % 400 != 0
    assert cut, "all kills came between two batches"
    last = stream(spark, broker.bootstrap, "source", "target", tmp_path, once=True)
    assert last.awaitTermination(DEADLINE_S)
    counts = Counter(one.value for part in records(broker, "target").values() for one in part)
    assert counts == Counter(sent)
