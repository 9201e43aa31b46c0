from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kqueue.cli.reassignment_plan import plan_text
from kqueue.client import TopicPartition

Kq = Callable[..., Result]
Done = Callable[..., str]


@pytest.fixture
def plan(topic: str, tmp_path: Path) -> Callable[[dict[int, tuple[int, ...]]], str]:
    """Write a plan for partitions of the topic; return its path."""

    def write(replicas: dict[int, tuple[int, ...]]) -> str:
        file = tmp_path / "plan.json"
        file.write_text(plan_text({TopicPartition(topic, index): row for index, row in replicas.items()}))
        return str(file)

    return write


Plan = Callable[[dict[int, tuple[int, ...]]], str]


def test_partitions_that_are_where_they_should_be(done: Done, topic: str, plan: Plan) -> None:
    path = plan({0: (1,), 2: (1,)})
    lines = done("cluster", "reassign", "run", path, "--wait").splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert json.loads(lines[2]) == json.loads(Path(path).read_text())
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-2" in lines
    assert lines[-1].split() == [f"{topic}-2", "1", "1"]
    assert done("cluster", "reassign", "verify", path).splitlines() == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of partition {topic}-2 is completed.",
        "",
        "Clearing broker-level throttles on broker 1",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    cancelled = done("cluster", "reassign", "cancel", path, "--preserve-throttles")
    assert cancelled == "None of the specified partition reassignments are active.\n"
    assert done("cluster", "reassign", "list") == "No partition reassignments found.\n"
    assert json.loads(done("cluster", "reassign", "list", "-o", "json")) == []


def test_a_throttle_is_set_kept_and_removed(done: Done, topic: str, plan: Plan) -> None:
    path = plan({0: (1,), 2: (1,)})

    def throttles() -> list[str]:
        rows = [
            row
            for entity in (("brokers", "1"), ("topics", topic))
            for row in json.loads(done("configs", "describe", *entity, "-o", "json"))[0]["settings"]
        ]
        return [f"{row['name']}={row['value']}" for row in rows if "throttled" in row["name"]]

    lines = done("cluster", "reassign", "run", path, "--throttle", "5000").splitlines()
    assert "The inter-broker throttle limit was set to 5000 B/s" in lines
    set_by_it = [
        "follower.replication.throttled.rate=5000",
        "leader.replication.throttled.rate=5000",
        "leader.replication.throttled.replicas=0:1,2:1",
    ]
    assert throttles() == set_by_it
    done("cluster", "reassign", "verify", path, "--preserve-throttles")
    assert throttles() == set_by_it
    assert f"Clearing topic-level throttles on topic {topic}" in done("cluster", "reassign", "cancel", path)
    assert throttles() == []


def test_a_broker_that_is_not_there_is_refused(kq: Kq, topic: str, plan: Plan) -> None:
    path = plan({0: (1,), 1: (2,)})
    result = kq("cluster", "reassign", "run", path)
    assert result.exit_code == 1
    assert f"Successfully started partition reassignment for {topic}-0\n" in result.stdout
    assert f"Error: {topic}-1: broker 2 is not registered" in result.stderr
    result = kq("cluster", "reassign", "verify", path)
    assert result.exit_code == 1
    words = f"There is no active reassignment of partition {topic}-1, but replica set is 1 rather than 2."
    assert words in result.stdout.splitlines()
    states = json.loads(kq("cluster", "reassign", "verify", path, "-o", "json").stdout)
    assert [(row["partition"], row["state"], row["wanted"]) for row in states] == [
        (0, "completed", [1]),
        (1, "different", [2]),
    ]


def test_a_partition_that_is_not_there(kq: Kq, topic: str, plan: Plan) -> None:
    result = kq("cluster", "reassign", "run", plan({7: (1,)}))
    assert (result.exit_code, result.stderr) == (1, f"Error: there is no partition {topic}-7\n")


def test_a_plan_is_proposed_as_kafkas_tool_does(done: Done, topic: str, tmp_path: Path) -> None:
    file, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    for how in (("-t", topic), ("--topics-file", str(topics))):
        lines = done("cluster", "reassign", "plan", "--brokers", "1", *how, "-f", str(file)).splitlines()
        assert [lines[0], *lines[2:4]] == [
            "Current partition replica assignment",
            "",
            "Proposed partition reassignment configuration",
        ]
        plan = plan_text({TopicPartition(topic, index): (1,) for index in range(3)})
        assert (lines[1], lines[4], file.read_text()) == (plan, plan, plan + "\n")
    both = json.loads(done("cluster", "reassign", "plan", "--brokers", "1", "-t", topic, "-o", "json"))
    assert both == {"current": json.loads(plan), "proposed": json.loads(plan)}
    assert "is completed" in done("cluster", "reassign", "verify", str(file))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--brokers", "1,2"), 2, "broker 2 is not registered; brokers that serve: 1"),
        (("--brokers", "one"), 2, "write ids with commas between"),
        (("--brokers", "1", "-r", "2"), 1, ": 2 replicas need as many brokers, and 1 is chosen"),
        (("--brokers", "1", "-t", "no-such-topic"), 1, "no-such-topic"),
    ],
)
def test_a_plan_that_cannot_be_made(kq: Kq, topic: str, arguments: tuple[str, ...], status: int, words: str) -> None:
    result = kq("cluster", "reassign", "plan", *arguments)
    assert (result.exit_code, words in result.stderr) == (status, True), result.stderr
