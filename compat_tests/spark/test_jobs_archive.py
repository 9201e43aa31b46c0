"""Archive and replay, also with kills: no record is lost or duplicated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark import killing
from kqueue.cli.app import kqueue as command
from kqueue.client import Client, TopicPartition
from kqueue.client import NewTopic as Wanted
from kqueue.demo.events import events
from kqueue.demo.flights import Flights
from kqueue.spark.errors import DataLost, PipelineFailed
from kqueue.spark.jobs.archive import ArchiveResult, archive
from kqueue.spark.jobs.replay import replay
from kqueue.spark.stores.local import LocalStore

NewTopic = Callable[..., str]
Pairs = Iterable[tuple[str, str]]


class Killed(BaseException):
    """Raised in place of a kill of the process."""


def source(broker: kqueue.Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def broker_records(broker: kqueue.Broker, topic: str, partition: int) -> list[tuple[object, ...]]:
    return [
        (one.offset, one.key, one.value, one.headers, one.timestamp)
        for one in broker.topics[topic].records(partition=partition, read_committed=True)
    ]


def offsets(folder: str) -> list[tuple[int, int]]:
    """Return the offsets that a plain Parquet reader sees."""
    if not any(Path(folder).glob("records/**/*.parquet")):
        return []
    rows = ds.dataset(f"{folder}/records", format="parquet").to_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_replayed_archive_equals_its_topic(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path) -> None:
    """The topic name looks like a date to Spark, and one record has no timestamp."""
    first, folder = "2013-01-31", str(tmp_path / "kept")
    broker.create_topic(first, 3, retention_ms=-1)
    broker.create_topic("second", 3, retention_ms=-1)
    for event in events(itertools.islice(Flights(), 100), seed=1):
        broker.topics[first].produce(event.value, event.key, headers={"kind": event.kind}, timestamp=event.send_ms)
    assert archive(spark, source(broker, first), folder).rows == 100
    assert archive(spark, source(broker, first), folder) == ArchiveResult(0, 0, 0, 100)
    assert [path.name for path in (tmp_path / "kept" / "records" / f"topic={first}").iterdir()] == ["date=2013-01-01"]
    arguments = ["pipeline", "replay", folder, "-b", broker.bootstrap, "-t", "second"]
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.stdout) == (0, "Sent 100 records to second.\n"), result.output
    for partition in range(3):
        assert broker_records(broker, first, partition) == broker_records(broker, "second", partition)
    result = CliRunner().invoke(command, [*arguments[:-1], "secnd"])
    assert result.exit_code == 1
    assert "there is no topic 'secnd'" in result.stderr
    assert "did you mean 'second'?: make it with 3 partitions" in result.stderr


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional"])
def test_restarted_replay_sends_no_duplicates(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path, delivery: str
) -> None:
    topic, folder = new_topic(2), str(tmp_path / "kept")
    for number in range(10):
        broker.topics[topic].produce(str(number), partition=number % 2)
    archive(spark, source(broker, topic), folder)

    def send(run: str = "1") -> tuple[int, int]:
        done = replay(
            spark,
            folder,
            {"kafka.bootstrap.servers": broker.bootstrap},
            topic=f"{topic}-again",
            create=True,
            delivery=delivery,
            run=run,
        )
        return done.rows, done.before

    assert send() == (10, 0)
    assert send() == (0, 10)
    broker.topics[topic].produce("new", partition=1)
    archive(spark, source(broker, topic), folder)
    assert send() == (1, 10)
    for partition in (0, 1):
        sent, replayed = (broker_records(broker, name, partition) for name in (topic, f"{topic}-again"))
        if delivery == "transactional":  # whose markers have offsets too
            sent, replayed = [one[1:] for one in sent], [one[1:] for one in replayed]
        assert replayed == sent
    with pytest.raises(PipelineFailed, match=r"has 1 partition, and the archive's records come from 2"):
        replay(spark, folder, {"kafka.bootstrap.servers": broker.bootstrap}, topic=new_topic(1))


def test_kill_at_any_step_loses_and_duplicates_nothing(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is killed before each change of the folder in turn.

    Readers never see a record twice, and the next run completes the archive.
    """
    topic, seen = new_topic(1), []
    for day in (1, 2):
        broker.topics[topic].produce("a", timestamp=day * 86_400_000)
    put_new, move = LocalStore.put_new, LocalStore.move

    for cut in range(4):
        folder, left = str(tmp_path / f"kept-{cut}"), itertools.count(cut, -1)

        def turn(left: Iterator[int] = left) -> None:
            if not next(left):
                raise Killed

        def put_or_die(self: LocalStore, path: str, data: bytes, turn: Callable[[], None] = turn) -> bool:
            turn()
            return put_new(self, path, data)

        def move_or_die(self: LocalStore, pairs: Pairs, turn: Callable[[], None] = turn) -> None:
            for pair in pairs:
                turn()
                move(self, [pair])

        monkeypatch.setattr(LocalStore, "put_new", put_or_die)
        monkeypatch.setattr(LocalStore, "move", move_or_die)
        with pytest.raises(Killed):
            archive(spark, source(broker, topic), folder)
        monkeypatch.undo()
        seen.append(len(offsets(folder)))
        assert archive(spark, source(broker, topic), folder).rows == 2
        assert offsets(folder) == [(0, 0), (0, 1)]
        assert not any((Path(folder) / ".staging").glob("*/*"))
    assert seen == [0, 0, 1, 2]  # before the decision, each file's move, and the manifest


def test_lost_records_and_recreated_topics_are_refused_by_the_archive(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, folder = new_topic(1), str(tmp_path / "kept")
    with pytest.raises(
        PipelineFailed, match=r"is no archive: expected a folder that `kqueue pipeline archive` has written"
    ):
        replay(spark, folder, {"kafka.bootstrap.servers": broker.bootstrap})
    for number in range(4):
        broker.topics[topic].produce(str(number), timestamp=1_000 * number)
    assert archive(spark, source(broker, topic), folder, since_ms=1_000, until_ms=2_000).rows == 1
    with Client(broker.bootstrap) as client:
        client.delete_records({TopicPartition(topic, 0): 3})
    with pytest.raises(DataLost, match="offsets 2 to 2 were deleted before they were archived"):
        archive(spark, source(broker, topic), folder)
    assert archive(spark, source(broker, topic) | {"failOnDataLoss": "false"}, folder).rows == 1
    assert offsets(folder) == [(0, 1), (0, 3)]
    with Client(broker.bootstrap) as client:
        client.delete_topics([topic])
        client.create_topics([Wanted(topic, 1)])
    with pytest.raises(PipelineFailed, match="ends at 0, and is archived up to 4: it was deleted and recreated"):
        archive(spark, source(broker, topic), folder)


def test_java_that_is_killed_is_named_in_one_line(tmp_path: Path) -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce("{}")
        arguments = ["pipeline", "archive", "kept", "-t", "orders", "-b", broker.bootstrap, "--master", "local[1]"]
        process = killing.start(tmp_path, "-m", "kqueue.cli", *arguments)
        try:
            begun = (tmp_path / "kept" / ".lock").exists
            killing.until(begun, lambda: killing.check_alive(process, tmp_path), "the job begins")
            (java,) = (one for one in psutil.Process(process.pid).children() if "java" in one.name())
            java.kill()
            assert process.wait(killing.DEADLINE_S) == 1
        finally:
            killing.kill(process)
    (line,) = killing.said((tmp_path / "log").read_text().splitlines())
    assert line.startswith("Error: Java, in which Spark runs, ended before the job did")
