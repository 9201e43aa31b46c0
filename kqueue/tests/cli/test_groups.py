from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from kafka import KafkaConsumer

from kqueue.client import Client, TopicPartition
from kqueue.tests.api.harness import batch

Kq = Callable[..., Result]
Done = Callable[..., str]


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """A group, named like the topic, that has read six of nine records and has no members."""
    records = batch(b"a", b"b", b"c", time_ms=round(time.time() * 1000))
    partitions = [TopicPartition(topic, index) for index in range(3)]
    with Client(bootstrap) as client:
        client.produce(dict.fromkeys(partitions, records))
        client.commit(topic, dict.fromkeys(partitions, 2))
    return topic


def offsets(done: Done, group: str) -> list[str]:
    return [line.split()[3] for line in done("groups", "describe", group).splitlines()[1:]]


def test_list(done: Done, group: str) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in done("groups", "list").splitlines()}
    assert (rows["GROUP"], rows[group]) == (["TYPE", "STATE", "LAG"], ["classic", "Empty", "3"])
    (described,) = [row for row in json.loads(done("groups", "list", "-o", "json")) if row["group"] == group]
    assert (described["state"], described["lag"]) == ("Empty", 3)


def test_describe_all_groups(kq: Kq, done: Done, group: str) -> None:
    described = json.loads(done("groups", "describe", "--all", "-o", "json"))
    assert group in [one["group"] for one in described]
    assert kq("groups", "describe", "--all", group).exit_code == 2
    assert kq("groups", "describe").exit_code == 2


def test_similar_names_are_suggested(kq: Kq, group: str) -> None:
    typo = f"{group}x"
    for args in (("describe", typo), ("delete", typo), ("delete-offsets", typo, "-t", group)):
        assert f"there is no group {typo!r}; did you mean {group!r}?" in kq("groups", *args).stderr
    reset = kq("groups", "reset-offsets", group, "-t", typo, "--to-earliest")
    assert f"there is no topic {typo!r}; did you mean {group!r}?" in reset.stderr


def test_describe_shows_the_lag(kq: Kq, group: str) -> None:
    result = kq("groups", "describe", group)
    assert result.exit_code == 0
    assert result.stderr == f"The group {group} has no members.\n"
    head, *rows = [line.split() for line in result.stdout.splitlines()]
    assert head == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    assert rows == [[group, group, str(partition), "2", "3", "1", "-", "-", "-"] for partition in range(3)]


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(
        group, bootstrap_servers=bootstrap, group_id=group, client_id="watcher", enable_auto_commit=False
    )
    while not consumer.assignment():
        consumer.poll(1000)  # long enough for a join: kafka-python 3 drops a join that is incomplete when its poll ends
    yield consumer
    consumer.close(autocommit=False)


@pytest.mark.usefixtures("member")
def test_members_are_described_and_block_changes(kq: Kq, done: Done, group: str) -> None:
    rows = [line.split() for line in done("groups", "describe", group).splitlines()[1:]]
    assert [row[8] for row in rows] == ["watcher"] * 3
    assert all(row[7].startswith("/") for row in rows)
    for args in (["delete", group], ["reset-offsets", group, "-t", group, "--to-latest", "--execute"]):
        result = kq("groups", *args)
        assert result.exit_code == 1
        assert "has members" in result.stderr
    assert offsets(done, group) == ["2", "2", "2"]


def test_unknown_groups(kq: Kq, fresh: str) -> None:
    result = kq("groups", "describe", fresh)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"there is no group {fresh!r}" in result.stderr
    result = kq("groups", "delete", fresh)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: there is no group {fresh!r}")


def test_delete(done: Done, group: str) -> None:
    assert done("groups", "delete", group) == f"Deleted group {group}.\n"
    assert group not in done("groups", "list").split()


def test_reset_previews_and_applies_on_execute(kq: Kq, done: Done, group: str) -> None:
    result = kq("groups", "reset-offsets", group, "-t", group, "--to-earliest")
    assert result.exit_code == 0
    assert "This was a dry run: nothing has changed" in result.stderr
    assert "--execute" in result.stderr
    assert [line.split()[1:] for line in result.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"],
        *([group, str(partition), "2", "0"] for partition in range(3)),
    ]
    assert offsets(done, group) == ["2", "2", "2"]
    done("groups", "reset-offsets", group, "-t", group, "--to-earliest", "--execute")
    assert offsets(done, group) == ["0", "0", "0"]


@pytest.mark.parametrize(
    ("args", "after"),
    [
        (["--to-latest"], ["3", "3", "3"]),
        (["--to-offset", "1"], ["1", "1", "1"]),
        (["--to-offset", "1000"], ["3", "3", "3"]),
        (["--shift-by", "-1"], ["1", "1", "1"]),
        (["--shift-by", "-100"], ["0", "0", "0"]),
        (["--to-datetime", "2001-01-01"], ["0", "0", "0"]),
        (["--to-datetime", "2201-01-01T00:00:00Z"], ["3", "3", "3"]),
    ],
)
def test_targets(done: Done, group: str, args: list[str], after: list[str]) -> None:
    done("groups", "reset-offsets", group, "--all-topics", *args, "--execute")
    assert offsets(done, group) == after


def test_reset_moves_only_the_named_partitions(done: Done, group: str) -> None:
    done("groups", "reset-offsets", group, "-t", f"{group}:0,2", "--to-earliest", "--execute")
    assert offsets(done, group) == ["0", "2", "0"]


def test_offsets_of_a_new_group_can_be_set(kq: Kq, done: Done, topic: str, fresh: str) -> None:
    done("produce", topic, "-p", "0", input="a\nb\n")
    name = f"{fresh}-new"
    done("groups", "reset-offsets", name, "-t", f"{topic}:0", "--to-offset", "1", "--execute")
    assert done("consume", topic, "-g", name, "-n", "1") == "b\n"
    dry = kq("groups", "reset-offsets", f"{name}s", "-t", f"{topic}:0", "--to-latest")
    assert f"There is no group '{name}s' yet: --execute creates it; did you mean {name!r}?" in dry.stderr
    result = kq("groups", "reset-offsets", f"{name}-2", "-t", f"{topic}:0", "--shift-by", "1")
    assert result.exit_code == 1
    assert f"no committed offset to shift for {topic}-0" in result.stderr


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["--to-latest"], 2, "say what to reset"),
        (["-t", "{group}", "--all-topics", "--to-latest"], 2, "say what to reset"),
        (["-t", "{group}"], 2, "choose one of"),
        (["-t", "{group}", "--to-latest", "--to-earliest"], 2, "choose one of"),
        (["-t", "{group}:3", "--to-latest"], 2, "has the partitions 0 to 2"),
        (["-t", "{group}:x", "--to-latest"], 2, "has the partitions 0 to 2"),
        (["-t", "{group}-none", "--to-latest"], 1, "there is no topic"),
        (["-t", "{group}", "--to-datetime", "soon"], 2, "'soon' is not a time"),
    ],
)
def test_wrong_usage(kq: Kq, done: Done, group: str, args: list[str], status: int, words: str) -> None:
    result = kq("groups", "reset-offsets", group, *(arg.format(group=group) for arg in args), "--execute")
    assert result.exit_code == status
    assert words in result.stderr
    assert offsets(done, group) == ["2", "2", "2"]


def test_a_group_without_offsets_has_nothing_to_reset(kq: Kq, fresh: str) -> None:
    result = kq("groups", "reset-offsets", fresh, "--all-topics", "--to-latest")
    assert result.exit_code == 1
    assert "has committed nothing" in result.stderr


def test_offsets_of_a_deleted_topic_have_no_end(done: Done, group: str) -> None:
    done("topics", "delete", group)
    assert all(line.split()[4] == "-" for line in done("groups", "describe", group).splitlines()[1:])


def test_offsets_can_be_reset_to_the_last_records(done: Done, topic: str, fresh: str) -> None:
    done("produce", topic, "--partition", "0", input="a\nb\nc\n")
    for wanted, offset in (("-1", 2), ("-99", 0)):
        output = done("groups", "reset-offsets", fresh + "-g", "--topic", f"{topic}:0", "--to-offset", wanted)
        assert output.splitlines()[1].split()[-1] == str(offset)
    done("groups", "reset-offsets", fresh + "-g", "--topic", f"{topic}:0", "--to-latest", "--execute")
    output = done("groups", "reset-offsets", fresh + "-g", "--topic", f"{topic}:0", "--shift-by", "-2")
    assert output.splitlines()[1].split()[-1] == "1"


def test_offsets_of_a_topic_can_be_deleted(kq: Kq, done: Done, topic: str, fresh: str) -> None:
    group = fresh + "-g"
    done("produce", topic, "--partition", "0", input="a\nb\n")
    done("groups", "reset-offsets", group, "--topic", f"{topic}:0,1", "--to-latest", "--execute")
    assert (
        done("groups", "delete-offsets", group, "--topic", f"{topic}:0")
        == f"Deleted the offset of {topic}-0, which was 2.\n"
    )
    assert (
        done("groups", "delete-offsets", group, "--topic", topic) == f"Deleted the offset of {topic}-1, which was 0.\n"
    )
    again = kq("groups", "delete-offsets", group, "--topic", topic)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", f"The group {group} had committed nothing there.\n")


def test_offsets_that_can_not_be_deleted(kq: Kq, topic: str, fresh: str) -> None:
    result = kq("groups", "delete-offsets", "nobody", "--topic", topic)
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: there is no group 'nobody'; `kqueue groups list` shows all groups\n",
    )
    assert "there is no topic" in kq("groups", "delete-offsets", fresh, "--topic", fresh + "-no").stderr
