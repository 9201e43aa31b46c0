from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from kqueue.cli.elect_leaders import _print_outcomes
from kqueue.client import Refusal, TopicPartition

Kq = Callable[..., Result]
Done = Callable[..., str]


def test_leaders_that_lead_already(done: Done, topic: str, tmp_path: Path) -> None:
    line = "Valid replica already elected for partitions"
    assert done("cluster", "elect", "-t", topic) == f"{line} {topic}-0, {topic}-1, {topic}-2\n"
    assert done("cluster", "elect", "--type", "unclean", "-t", topic, "-p", "1") == f"{line} {topic}-1\n"
    assert done("cluster", "elect", "--all") == "No partition needs an election.\n"
    file = tmp_path / "partitions.json"
    file.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 2}}]}}')
    assert done("cluster", "elect", "-f", str(file)) == f"{line} {topic}-2\n"


def test_outcomes_are_printed_as_kafkas_tool_does(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = [TopicPartition("t", index) for index in range(3)]
    _print_outcomes("PREFERRED", dict.fromkeys(partitions[:2], Refusal(0, None)))
    assert capsys.readouterr().out == "Successfully completed leader election (PREFERRED) for partitions t-0, t-1\n"
    with pytest.raises(click.exceptions.Exit):
        _print_outcomes("UNCLEAN", {partitions[2]: Refusal(83, "nobody is there.")})
    assert capsys.readouterr().err == (
        "Error completing leader election (UNCLEAN) for partition: t-2: nobody is there\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say of which partitions"),
        (("--all", "-t", "a"), "say of which partitions"),
        (("--all", "-p", "0"), "--partition needs --topic"),
    ],
)
def test_the_partitions_have_to_be_said(kq: Kq, arguments: tuple[str, ...], words: str) -> None:
    result = kq("cluster", "elect", *arguments)
    assert (result.exit_code, words in result.stderr) == (2, True)


def test_a_partition_that_is_not_there(kq: Kq, topic: str) -> None:
    result = kq("cluster", "elect", "-t", topic, "-p", "9")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"Error completing leader election (PREFERRED) for partition: {topic}-9: topic {topic} has"
    )


@pytest.mark.parametrize("partition", [(), ("-p", "0")])
def test_a_topic_that_is_not_there(kq: Kq, topic: str, partition: tuple[str, ...]) -> None:
    result = kq("cluster", "elect", "-t", f"{topic}s", *partition)
    assert (result.exit_code, result.stderr) == (1, f"Error: there is no topic '{topic}s'; did you mean {topic!r}?\n")


@pytest.mark.parametrize("text", ["", "{}", '{"partitions": [1]}', '{"partitions": [{"topic": "a"}]}'])
def test_a_file_without_partitions(kq: Kq, tmp_path: Path, text: str) -> None:
    file = tmp_path / "partitions.json"
    file.write_text(text)
    result = kq("cluster", "elect", "-f", str(file))
    assert (result.exit_code, result.stderr.startswith(f"Error: {file}: expected a")) == (1, True)


def test_a_broker_that_runs_or_is_unknown_stays(kq: Kq) -> None:
    assert "broker 99 is not registered" in kq("cluster", "unregister", "99").stderr
    assert kq("cluster", "unregister", "1").exit_code == 1
