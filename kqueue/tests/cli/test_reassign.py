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
    ]
    assert done("cluster", "reassign", "cancel", path) == "None of the specified partition reassignments are active.\n"
    assert done("cluster", "reassign", "list") == "No partition reassignments found.\n"
    assert json.loads(done("cluster", "reassign", "list", "-o", "json")) == []


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
