from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as main
from kqueue.cli.log_dirs import _heading, _progress, kafka_json
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

Kq = Callable[..., Result]
Done = Callable[..., str]
STORAGE_ERROR = 56


def folder(**fields: Any) -> dict[str, Any]:
    one = {"partition_index": 0, "partition_size": 1500, "offset_lag": 2, "is_future_key": True}
    topics = [{"name": "t", "partitions": [one]}]
    return {"error_code": 0, "log_dir": "/data", "topics": topics, "total_bytes": 4000, "usable_bytes": 2000, **fields}


def test_a_table_per_folder(done: Done, topic: str) -> None:
    """S3.1"""
    done("produce", topic, "--partition", "1", input="x\n")
    head, titles, *rows = done("log-dirs", topic).splitlines()
    assert head.startswith("Broker ")
    assert "3 partitions" in head
    assert titles.split() == ["TOPIC", "PARTITION", "SIZE", "BYTES", "LAG"]
    cells = [row.split() for row in rows]
    assert [(row[0], row[1], row[-1]) for row in cells] == [(topic, "0", "0"), (topic, "1", "0"), (topic, "2", "0")]
    assert [int(row[-2]) > 0 for row in cells] == [False, True, False]


def test_the_json_is_that_of_kafkas_tool(done: Done, topic: str) -> None:
    told = json.loads(done("log-dirs", "--json", topic))
    assert told["version"] == 1
    ((broker),) = told["brokers"]
    (only,) = broker["logDirs"]
    assert only["error"] is None
    assert only["partitions"][0] == {"partition": f"{topic}-0", "size": 0, "offsetLag": 0, "isFuture": False}


def test_only_the_named_brokers(kq: Kq, done: Done) -> None:
    number = json.loads(done("log-dirs", "--json"))["brokers"][0]["broker"]
    assert json.loads(done("log-dirs", "--json", "--broker", str(number)))["brokers"][0]["broker"] == number
    result = kq("log-dirs", "--broker", "777")
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_topic_that_is_not_there_is_an_error_and_the_others_are_shown(kq: Kq, topic: str, fresh: str) -> None:
    missing = f"Error: there is no topic '{fresh}-no'; did you mean '{fresh}'?\n"
    result = kq("log-dirs", fresh + "-no")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", missing)
    result = kq("log-dirs", fresh + "-no", topic)
    assert (result.exit_code, result.stderr) == (1, missing)
    assert "3 partitions" in result.stdout


@for_each(
    "fields, expected",
    [
        ({}, "Broker 3, /data: 1 partition, 1.5 kB; 2.0 kB free of 4.0 kB"),
        ({"total_bytes": -1}, "Broker 3, /data: 1 partition, 1.5 kB; 2.0 kB free"),
        ({"usable_bytes": -1}, "Broker 3, /data: 1 partition, 1.5 kB"),
        ({"topics": []}, "Broker 3, /data: 0 partitions, 0 B; 2.0 kB free of 4.0 kB"),
    ],
)
def test_folder_description(fields: dict[str, Any], expected: str) -> None:
    assert _heading(3, folder(**fields)) == expected


def test_offline_folder_is_reported() -> None:
    lost = folder(error_code=STORAGE_ERROR, topics=[])
    assert _heading(3, lost).startswith("Broker 3, /data: ")
    assert "free" not in _heading(3, lost)
    (told,) = kafka_json([{"broker": 3, "log_dirs": [lost]}])["brokers"][0]["logDirs"]
    assert told["error"]
    assert told["partitions"] == []


@pytest.fixture
def two_folders(tmp_path: Path) -> Iterator[tuple[kqueue.Broker, Kq]]:
    """A broker with two data folders, and the command for it."""
    with kqueue.Broker(log_dirs=[str(tmp_path / "one"), str(tmp_path / "two")]) as broker:
        yield broker, lambda *args: CliRunner().invoke(main, [*args, "-b", broker.bootstrap])


def places(broker: kqueue.Broker, topic: str) -> list[str]:
    shown = CliRunner().invoke(main, ["log-dirs", topic, "-o", "json", "-b", broker.bootstrap])
    folders = json.loads(shown.stdout)["brokers"][0]["logDirs"]
    return sorted(f"{row['partition']}:{Path(one['logDir']).name}" for one in folders for row in one["partitions"])


def test_logs_move_to_another_folder(two_folders: tuple[kqueue.Broker, Kq], tmp_path: Path) -> None:
    broker, kq = two_folders
    broker.create_topic("t", 3)
    for index in range(3):
        broker.topics["t"].produce_all([b"x" * 1000] * 500, partition=index)
    two = str(tmp_path / "two")
    result = kq("log-dirs", "move", "t", "--to", two)
    assert (result.exit_code, result.stdout) == (0, f"3 partitions of t now in {two}.\n")
    assert places(broker, "t") == ["t-0:two", "t-1:two", "t-2:two"]
    result = kq("log-dirs", "move", "t", "-p", "1", "--to", str(tmp_path / "one"), "--no-wait")
    assert (result.exit_code, result.stdout) == (0, f"1 partition will be in {tmp_path / 'one'}.\n")
    eventually(lambda: places(broker, "t") == ["t-0:two", "t-1:one", "t-2:two"])
    assert [len(broker.topics["t"].records(index)) for index in range(3)] == [500] * 3


def test_invalid_move_is_an_error(two_folders: tuple[kqueue.Broker, Kq], tmp_path: Path) -> None:
    broker, kq = two_folders
    broker.create_topic("t")
    result = kq("log-dirs", "move", "t", "--to", "/nowhere")
    assert result.exit_code == 1
    assert result.stderr == "Error: t-0: /nowhere is no data folder of its broker; `kqueue log-dirs` shows them\n"
    assert "there is no topic 'no-such'" in kq("log-dirs", "move", "no-such", "--to", "/nowhere").stderr
    assert "not 7" in kq("log-dirs", "move", "t", "-p", "7", "--to", "/nowhere").stderr


def test_progress_counts_what_is_copied_and_what_is_there() -> None:
    def row(index: int, size: int, is_future: bool) -> dict[str, Any]:
        return {"partition_index": index, "partition_size": size, "offset_lag": 0, "is_future_key": is_future}

    folders = [
        {"log_dir": "/a", "topics": [{"name": "t", "partitions": [row(0, 100, False), row(2, 7, False)]}]},
        {"log_dir": "/b", "topics": [{"name": "t", "partitions": [row(0, 40, True), row(1, 5, False)]}]},
    ]
    wanted = {("t", 0), ("t", 1), ("t", 2)}
    assert _progress([{"log_dirs": folders}], wanted, "/b") == (
        {("t", 0): None, ("t", 1): True, ("t", 2): False},
        45,
        112,
    )


@for_each("order", [1, -1])
def test_a_move_that_ends_between_the_lists_of_two_folders_has_ended(order: int) -> None:
    """Each folder is listed by itself: the former one before the end, the new one after it."""
    row = {"partition_index": 0, "partition_size": 5, "offset_lag": 0, "is_future_key": False}
    folders = [{"log_dir": name, "topics": [{"name": "t", "partitions": [row]}]} for name in ("/a", "/b")]
    assert _progress([{"log_dirs": folders[::order]}], {("t", 0)}, "/b")[0] == {("t", 0): True}
