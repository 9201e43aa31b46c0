"""Kills queries and their broker at random times, in the middle of batches.

All produced records are in the output, exactly once where the query promises it.

`KQUEUE_KILLS` (default 1): kills of a process with its queries. `KQUEUE_STOPS` (default 3): kills
of the broker, or stops of a query, in a running process. `KQUEUE_SEED`: the random seed. More than
one kill needs `-o faulthandler_timeout=0`. Kills at each broker call of an exactly-once write are
in `kqueue/tests/spark/sink/test_batch_commit.py` and `test_transaction_commit.py`.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from compat_tests.spark import killing, queries
from compat_tests.spark.comparing import batches, check
from compat_tests.spark.killing import DEADLINE_S, HOME, KILLS, SEED, STOPS, Producer, Served
from kqueue.client import LATEST, Client, NewTopic, TopicPartition

PARTITIONS = 3
BACKLOG = 900
"""Records for several batches of each query, so that every query is busy from the start."""
COPIED, WHOLE = pytest.param(queries.COPIED, id="copied"), pytest.param(queries.WHOLE, id="whole")
"""By default each is killed in one way: a process with its broker, or a broker alone."""
IN_VAIN_MAX = 4
"""Kills between batches that are allowed before the test fails as ineffective."""


@contextlib.contextmanager
def produced(tmp_path: Path, rng: random.Random) -> Iterator[tuple[Served, Producer]]:
    """Start a broker and a producer that keeps sending records."""
    with Served(tmp_path / "broker", rng) as broker:
        with Client(broker.bootstrap) as client:
            client.create_topics([NewTopic(topic, PARTITIONS) for topic in (queries.SOURCE, *queries.DELIVERIES)])
        producer = Producer(broker.bootstrap, queries.SOURCE, PARTITIONS, random.Random(SEED))
        for _ in range(3):
            producer.send(BACKLOG // 3)
        producer.start()
        yield broker, producer


def finish(spark: SparkSession, broker: Served, producer: Producer, folder: Path, names: Sequence[str]) -> None:
    """Let the queries process all records, and compare the results."""
    producer.end()
    left = list(names)
    for last in (False, True):
        ended = {name: queries.start(spark, broker.bootstrap, folder, name, once=True) for name in left}
        left = [name for name, query in ended.items() if not _is_done(query, last)]
    check(broker.bootstrap, folder, names, producer.confirmed)
    assert len(producer.confirmed) > BACKLOG


def _is_done(query: StreamingQuery, last: bool) -> bool:
    """Wait for the end of a query; False: it is to be started again, which the last try is not."""
    try:
        assert query.awaitTermination(DEADLINE_S)
    except StreamingQueryException as error:
        if last or not queries.is_slow_start(error):
            raise
        return False
    return True


def wait_for_copying(broker: Served, name: str, alive: Callable[[], None]) -> None:
    """Wait until a query's topic gets rows of a batch that Spark has not committed."""
    places = {TopicPartition(name, index): LATEST for index in range(PARTITIONS)}
    with Client(broker.bootstrap) as client:

        def rows() -> int:
            return sum(one.offset or 0 for one in client.offsets(places).values())

        before = rows()
        killing.until(lambda: rows() > before, alive, "a copied row")


def wait_for_a_batch(folder: Path, names: Sequence[str], rng: random.Random, alive: Callable[[], None]) -> None:
    """Wait until one query has started another batch, and a random time longer."""
    name = rng.choice(names)
    killing.until(lambda: is_cut(folder, name), alive, f"a batch of {name}")
    time.sleep(rng.uniform(0, 0.5))


def wait_for_all(folder: Path, names: Sequence[str], alive: Callable[[], None]) -> None:
    """Wait until each query has committed another batch."""
    before = {name: batches(folder, name) for name in names}
    killing.until(
        lambda: all(batches(folder, name) > done for name, done in before.items()), alive, "another batch of each query"
    )


def is_cut(folder: Path, query: str) -> bool:
    """Return whether the query has started a batch that is not committed."""
    return batches(folder, query, "offsets") > batches(folder, query)


@pytest.mark.timeout(300 + 300 * KILLS)
@pytest.mark.parametrize("names", [COPIED, pytest.param(*WHOLE.values, id=WHOLE.id, marks=pytest.mark.thorough)])
def test_queries_killed_with_their_broker_lose_and_duplicate_nothing(
    late_spark: Callable[[], SparkSession], tmp_path: Path, names: Sequence[str]
) -> None:
    """Kill the queries with their broker, alternately during a copy and at a random time."""
    rng = random.Random(SEED)
    cuts, turn = 0, 0
    with produced(tmp_path, rng) as (broker, producer):
        while turn < KILLS or (cuts == 0 and turn < KILLS + IN_VAIN_MAX):
            process = killing.start(tmp_path, Path(queries.__file__), broker.bootstrap, tmp_path, *names)
            alive = partial(killing.check_alive, process, tmp_path)
            try:
                assert Path(killing.first_line(process.stdout, tmp_path)).is_relative_to(HOME)
                wait_for_all(tmp_path, names, alive)
                if turn % 2:
                    wait_for_a_batch(tmp_path, names, rng, alive)
                    broker.kill()
                else:
                    wait_for_copying(broker, names[0], alive)
            finally:
                killing.kill(process)
            cuts += turn % 2 == 0 and is_cut(tmp_path, names[0])
            if turn % 2:
                broker.start()
            turn += 1
        assert cuts, "no kill came while rows were copied"
        finish(late_spark(), broker, producer, tmp_path, names)


@pytest.mark.timeout(300 + 60 * STOPS)
@pytest.mark.parametrize("names", [pytest.param(*COPIED.values, id=COPIED.id, marks=pytest.mark.thorough), WHOLE])
def test_queries_whose_broker_is_killed_lose_and_duplicate_nothing(
    spark: SparkSession, tmp_path: Path, names: Sequence[str]
) -> None:
    """Kill the broker or stop a query at a random time.

    Queries that fail without a broker resume from their checkpoints.
    """
    rng = random.Random(SEED)
    with produced(tmp_path, rng) as (broker, producer):
        running: dict[str, StreamingQuery] = {}

        def restart_failed() -> None:
            for name in names:
                if name not in running or not running[name].isActive:
                    running[name] = queries.start(spark, broker.bootstrap, tmp_path, name)

        restart_failed()
        # Spark does not resume a query that ends between its first files and its first batch
        killing.until(
            lambda: all(batches(tmp_path, name, "offsets") for name in names), restart_failed, "a batch of each"
        )
        for _ in range(STOPS):
            restart_failed()
            if rng.random() < 0.5:
                # a query may fail only now, because of an earlier broker kill
                wait_for_copying(broker, names[0], restart_failed)
            else:
                time.sleep(rng.uniform(0.2, 1.5))
            if rng.random() < 0.7:
                broker.kill()
                time.sleep(rng.uniform(0, 0.5))
                broker.start()
            else:
                running[rng.choice(names)].stop()
        for query in running.values():
            query.stop()
        finish(spark, broker, producer, tmp_path, names)
