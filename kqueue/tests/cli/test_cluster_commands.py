"""The commands of `kqueue cluster` and `kqueue topics describe` against three brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.cli.reassignment_plan import plan_text
from kqueue.client import Client, TopicPartition
from kqueue.tests.client.serving import batch, read_all
from kqueue.tests.served_cluster import bootstrap, served_cluster
from kqueue.tests.waits import eventually

Run = Callable[..., str]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[kqueue.Broker]]:
    with served_cluster(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


@pytest.fixture
def run(brokers: list[kqueue.Broker]) -> Run:
    """Run a command that must succeed, against one of the brokers; return what it prints."""

    def run(*args: str, node: int = 1, status: int = 0) -> str:
        result = CliRunner().invoke(root, args, env={"KQUEUE_BOOTSTRAP": brokers[node - 1].bootstrap})
        assert result.exit_code == status, result.output
        return result.stdout

    return run


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> str:
    """Return a new topic of three partitions with three replicas each, which all brokers know."""
    name = request.node.name.replace("[", "-").strip("]")[:60]
    run("topics", "create", name, "-p", "3", "-r", "3")
    for node in (1, 2, 3):
        eventually(lambda node=node: name in run("topics", "list", node=node).splitlines())  # type: ignore[misc]
    return name


def described(run: Run, topic: str, node: int) -> list[dict[str, Any]]:
    """The partitions of a topic as a broker shows them."""
    ((shown,),) = [json.loads(run("topics", "describe", topic, "-o", "json", node=node))]
    partitions: list[dict[str, Any]] = shown["partitions"]
    return partitions


def is_moved(brokers: list[kqueue.Broker], plan: Path) -> bool:
    """Whether all brokers show the partitions of a plan where they should be."""
    statuses = [
        CliRunner().invoke(root, ["cluster", "reassign", "verify", str(plan), "-b", broker.bootstrap]).exit_code
        for broker in brokers
    ]
    return statuses == [0, 0, 0]


def test_brokers_are_shown_with_what_they_lead(run: Run, topic: str) -> None:
    rows = json.loads(run("cluster", "brokers", "-o", "json", node=2))
    assert [(row["id"], row["state"], row["rack"]) for row in rows] == [
        (node, "unfenced", f"rack{node}") for node in (1, 2, 3)
    ]
    assert sum(row["is_controller"] for row in rows) == 1
    assert all(row["replicas"] >= 3 for row in rows)
    state = json.loads(run("cluster", "describe", "-o", "json", node=3))
    assert (state["brokers"], state["fenced_brokers"], state["unavailable"]) == (3, 0, 0)
    assert state["controller"] == next(row["id"] for row in rows if row["is_controller"])
    info = json.loads(run("cluster", "info", "-o", "json"))
    assert (info["quorum"]["leader"], info["quorum"]["voters"]) == (state["controller"], [state["controller"]])
    assert info["quorum"]["epoch"] > 0


def test_a_plan_is_run_and_watched(run: Run, brokers: list[kqueue.Broker], topic: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run("cluster", "reassign", "plan", "--brokers", "1,2", "-t", topic, "-r", "2", "-f", str(file))
    wanted = {row["partition"]: row["replicas"] for row in json.loads(file.read_text())["partitions"]}
    assert all(sorted(replicas) == [1, 2] for replicas in wanted.values())
    before = json.loads(run("cluster", "reassign", "plan", "--brokers", "1,2,3", "-t", topic, "-o", "json"))["current"]
    lines = run("cluster", "reassign", "run", str(file), "--wait", node=2).splitlines()
    assert json.loads(lines[2]) == before, "the plan that moves back"
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1,{topic}-2" in lines
    eventually(lambda: is_moved(brokers, file))
    assert run("cluster", "reassign", "list", node=2) == "No partition reassignments found.\n"
    assert {row["partition"]: row["replicas"] for row in described(run, topic, 2)} == wanted


def test_records_move_with_their_partition(run: Run, brokers: list[kqueue.Broker], tmp_path: Path) -> None:
    run("topics", "create", "moving", "-r", "1")
    partition = TopicPartition("moving", 0)
    file = tmp_path / "plan.json"
    with Client(bootstrap(brokers)) as client:
        for number in range(20):
            client.produce({partition: batch([b"%d" % number] * 10)})
        (before,) = client.metadata(["moving"]).topics["moving"].partitions[0].replicas
        wanted = [node for node in (1, 2, 3) if node != before]
        file.write_text(plan_text({partition: wanted}))
        lines = run("cluster", "reassign", "run", str(file), "--wait").splitlines()
        assert lines[-1].split() == ["moving-0", str(before), ",".join(map(str, wanted))]
        moved = client.metadata(["moving"]).topics["moving"].partitions[0]
        assert moved.leader in wanted
        assert read_all(client, partition) == [b"%d" % number for number in range(20) for _ in range(10)]


def test_leaders_are_given_back_to_the_preferred_ones(
    run: Run, brokers: list[kqueue.Broker], topic: str, tmp_path: Path
) -> None:
    rows = described(run, topic, 1)
    file = tmp_path / "plan.json"
    plan = [
        {"topic": topic, "partition": row["partition"], "replicas": [*row["replicas"][1:], row["replicas"][0]]}
        for row in rows
    ]
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    run("cluster", "reassign", "run", str(file), node=3)
    eventually(lambda: is_moved(brokers, file))
    eventually(lambda: json.loads(run("cluster", "describe", "-o", "json", node=3))["not_preferred"] >= 3)
    line = run("cluster", "elect", "-t", topic, node=3)
    names = ", ".join(f"{topic}-{index}" for index in range(3))
    assert line == f"Successfully completed leader election (PREFERRED) for partitions {names}\n"
    leaders = [row["replicas"][0] for row in plan]
    eventually(lambda: [row["leader"] for row in described(run, topic, 3)] == leaders)
    assert run("cluster", "elect", "-t", topic, node=3).startswith("Valid replica already elected")


def test_a_broker_that_serves_stays_registered(run: Run, brokers: list[kqueue.Broker]) -> None:
    run("cluster", "unregister", "2", status=1)
    with Client(brokers[0].bootstrap) as client:
        assert list(client.cluster.describe().brokers) == [1, 2, 3]


def test_partitions_of_a_stopped_broker_are_listed(tmp_path: Path) -> None:
    def printed(*args: str) -> str:
        result = CliRunner().invoke(root, args, env={"KQUEUE_BOOTSTRAP": brokers[0].bootstrap})
        assert result.exit_code == 0, result.output
        return result.stdout

    with served_cluster(tmp_path, settings={"broker.session.timeout.ms": 2000}) as brokers:
        printed("topics", "create", "whole", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
        printed("topics", "create", "single", "-p", "3", "-r", "1")
        assert printed("topics", "describe", "--under-replicated") == ""
        with Client(brokers[0].bootstrap) as client:
            lost = next(
                index
                for index, row in client.metadata(["single"]).topics["single"].partitions.items()
                if row.leader == 3
            )
        brokers[2].stop()
        eventually(lambda: json.loads(printed("cluster", "describe", "--json"))["fenced_brokers"] == 1)
        lines = printed("topics", "describe", "whole", "--under-replicated-partitions").splitlines()
        assert [line.split("\t")[2] for line in lines] == [f"Partition: {index}" for index in range(3)]
        assert printed("topics", "describe", "whole", "--at-min-isr-partitions") == "".join(
            line + "\n" for line in lines
        )
        (line,) = printed("topics", "describe", "--unavailable-partitions").splitlines()
        assert line.startswith(f"\tTopic: single\tPartition: {lost}\tLeader: none\tReplicas: 3\tIsr: ")
        assert printed("topics", "describe", "--under-min-isr-partitions").splitlines() == [line]
        rows = json.loads(printed("cluster", "brokers", "--json"))
        assert [(row["id"], row["state"], row["leads"]) for row in rows][2] == (3, "fenced", 0)
        removed = CliRunner().invoke(root, ["cluster", "unregister", "3", "-b", brokers[0].bootstrap])
        assert removed.stdout == "Broker 3 is no longer registered.\n"
        assert removed.stderr.startswith("It has replicas of 4 partitions still: move them with ")
        assert [row["id"] for row in json.loads(printed("cluster", "brokers", "--json"))] == [1, 2]
