"""Kafka's command line tools on a cluster of three kqueue brokers, beside kqueue's own commands,
which print the same lines.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from compat_tests.kafka.tool_host import ToolHost
from compat_tests.waits import eventually_equal, look_until
from kqueue.cli.app import kqueue as root
from kqueue.client import Client, ResourceType, TopicPartition
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

Tool = Callable[..., str]
REASSIGN = "reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[kqueue.Broker]]:
    store = f"sqlite:{tmp_path_factory.mktemp('cluster') / 'store.db'}"
    brokers = [
        kqueue.Broker(node_id=node, settings={"kqueue.cluster.store": store, "broker.rack": f"rack{node}"})
        for node in (1, 2, 3)
    ]
    try:
        for broker in brokers:
            broker.start()
        with Client(brokers[0].bootstrap) as client:
            look_until(lambda: client.metadata([]).brokers, lambda brokers: len(brokers) == 3, "three brokers")
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()


def until_shown(brokers: list[kqueue.Broker], topic: str, replicas: dict[int, tuple[int, ...]] | None = None) -> None:
    """Return when each broker shows the topic, with these replicas: each has a view of its own."""

    def shown(client: Client) -> dict[int, tuple[int, ...]]:
        metadata = client.metadata().topics.get(topic)
        return {} if metadata is None else {index: row.replicas for index, row in metadata.partitions.items()}

    for broker in brokers:
        with Client(broker.bootstrap) as client:
            look_until(
                lambda client=client: shown(client),  # type: ignore[misc]
                lambda rows: rows == replicas if replicas else rows,
                f"replicas of {topic}: {replicas or 'any'}",
            )


@pytest.fixture
def bootstrap(brokers: list[kqueue.Broker]) -> str:
    return ",".join(broker.bootstrap for broker in brokers)


@pytest.fixture
def tool(tools: ToolHost, bootstrap: str) -> Tool:
    """Run a tool of Kafka, which must succeed; return what it prints."""

    def run(name: str, *arguments: object) -> str:
        done = tools.run(f"org.apache.kafka.tools.{name}", "--bootstrap-server", bootstrap, *arguments)
        assert done.status == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr[:4000]}"
        return done.stdout

    return run


@pytest.fixture
def own(bootstrap: str) -> Callable[..., str]:
    """Run a command of kqueue, which must succeed; return what it prints."""

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(root, arguments, env={"KQUEUE_BOOTSTRAP": bootstrap})
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_topics_are_placed_and_described_alike(
    tool: Tool, own: Callable[..., str], brokers: list[kqueue.Broker]
) -> None:
    tool("TopicCommand", "--create", "--topic", "alike", "--partitions", 6, "--replication-factor", 3)
    tool("TopicCommand", "--create", "--topic", "assigned", "--replica-assignment", "3:1,2:3")
    until_shown(brokers, "assigned")
    shown = tool("TopicCommand", "--describe", "--topic", "alike")
    lines = shown.splitlines()
    assert re.fullmatch(r"Topic: alike\tTopicId: \S{22}\tPartitionCount: 6\tReplicationFactor: 3\tConfigs: ?", lines[0])
    leaders = [re.search(r"Leader: (\d)\tReplicas: (\d),", line) for line in lines[1:]]
    assert all(match is not None and match[1] == match[2] for match in leaders)
    assert sorted(match[1] for match in leaders if match) == ["1", "1", "2", "2", "3", "3"]
    assert [line.rstrip() for line in own("topics", "describe", "alike").splitlines()] == [
        line.rstrip() for line in lines
    ]
    assert "\tReplicas: 3,1\tIsr: 3,1\t" in tool("TopicCommand", "--describe", "--topic", "assigned")
    for flag in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tool("TopicCommand", "--describe", "--topic", "alike", flag).strip() == ""


def test_a_plan_of_kafkas_tool_moves_partitions(
    tool: Tool, own: Callable[..., str], brokers: list[kqueue.Broker], bootstrap: str, tmp_path: Path
) -> None:
    tool("TopicCommand", "--create", "--topic", "moves", "--replica-assignment", "1,1")
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moves"}]}))
    until_shown(brokers, "moves")
    generated = tool(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
    plan.write_text(generated.splitlines()[-1])
    assert json.loads(plan.read_text())["version"] == 1
    proposed = own("cluster", "reassign", "plan", "--brokers", "2,3", "-t", "moves").splitlines()
    assert [line for line in proposed if not line.startswith("{")] == [
        line for line in generated.splitlines() if not line.startswith("{")
    ]
    current = [plan_of(text.splitlines()[1]) for text in ("\n".join(proposed), generated)]
    assert current == [{0: [1], 1: [1]}] * 2
    started = tool(REASSIGN, "--execute", "--reassignment-json-file", plan)
    assert "Successfully started partition reassignments for moves-0,moves-1" in started
    until_shown(brokers, "moves", {index: tuple(nodes) for index, nodes in plan_of(plan.read_text()).items()})
    eventually_equal(lambda: tool(REASSIGN, "--list").strip(), "No partition reassignments found.")
    cancelled = tool(REASSIGN, "--cancel", "--reassignment-json-file", plan)
    assert "None of the specified partition reassignments are active." in cancelled
    verify = ["cluster", "reassign", "verify", str(plan), "-b", bootstrap]
    verified = CliRunner().invoke(root, verify).stdout.splitlines()
    assert verified[4:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic moves",
    ]
    assert tool(REASSIGN, "--verify", "--reassignment-json-file", plan).splitlines() == verified


def plan_of(line: str) -> dict[int, list[int]]:
    return {row["partition"]: row["replicas"] for row in json.loads(line)["partitions"]}


THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttles(bootstrap: str, topic: str) -> dict[str, str | None]:
    """Return the throttles that are set, by name of the setting."""
    with Client(bootstrap) as client:
        of_topic = client.configs(ResourceType.TOPIC, [topic], THROTTLED_REPLICAS)[topic]
        of_brokers = client.configs(ResourceType.BROKER, ["2"], THROTTLED_RATES)["2"]
    rows = {**of_topic, **of_brokers}
    return {name: row.value for name, row in rows.items() if row.source.startswith("DYNAMIC")}


@pytest.mark.parametrize("by", ["kafka", "kqueue"])
def test_a_throttled_move_takes_its_time_until_the_throttle_is_raised(
    by: str, tool: Tool, own: Callable[..., str], bootstrap: str, tmp_path: Path
) -> None:
    topic = f"throttled-{by}"
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [1, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    tool("TopicCommand", "--create", "--topic", topic, "--replica-assignment", "1")
    place = TopicPartition(topic, 0)

    def execute(rate: int) -> str:
        if by == "kqueue":
            return own("cluster", "reassign", "run", str(plan), "--throttle", str(rate))
        return tool(
            REASSIGN, "--execute", "--additional", "--reassignment-json-file", plan, "--throttle", rate,
        )  # fmt: skip

    with Client(bootstrap) as client:
        look_until(lambda: client.metadata().topics, lambda topics: topic in topics, topic)
        for _ in range(40):  # 4 MB
            client.produce({place: build_batch([Record(0, 0, None, bytes(100_000), (), -1)])})
        began = time.monotonic()
        started = execute(400_000)
        assert "The inter-broker throttle limit was set to 400000 B/s\n" in started
        assert "Warning: You must run --verify periodically" in started
        assert throttles(bootstrap, topic) == {
            THROTTLED_REPLICAS[0]: "0:1",
            THROTTLED_REPLICAS[1]: "0:2",
            **dict.fromkeys(THROTTLED_RATES, "400000"),
        }
        while time.monotonic() < began + 4:
            assert client.cluster.reassignments([place]), "4 MB take 9 s"
            time.sleep(0.2)
        execute(100_000_000)
        eventually_equal(lambda: client.cluster.reassignments([place]), {}, "reassignments")
    if by == "kqueue":
        own("cluster", "reassign", "verify", str(plan))
    else:
        tool(REASSIGN, "--verify", "--reassignment-json-file", plan)
    eventually_equal(lambda: throttles(bootstrap, topic), {}, "throttles")


def test_leaders_are_elected(tool: Tool, brokers: list[kqueue.Broker], tmp_path: Path) -> None:
    tool("TopicCommand", "--create", "--topic", "elections", "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    row = {"topic": "elections", "partition": 0, "replicas": [2, 1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    until_shown(brokers, "elections")
    tool(REASSIGN, "--execute", "--reassignment-json-file", plan)
    arguments = ("LeaderElectionCommand", "--election-type", "PREFERRED", "--topic", "elections", "--partition", 0)
    done = "Successfully completed leader election (PREFERRED) for partitions elections-0\n"
    assert tool(*arguments) == done
    assert tool(*arguments) == "Valid replica already elected for partitions elections-0\n"
    shown = "\tLeader: 2\tReplicas: 2,1\t"
    look_until(lambda: tool("TopicCommand", "--describe", "--topic", "elections"), lambda lines: shown in lines, shown)


def test_the_quorum_and_the_brokers(tool: Tool, tools: ToolHost, bootstrap: str) -> None:
    status = tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"^LeaderId: +[123]$", status, re.M), status
    assert re.search(r"^LeaderEpoch: +[1-9]\d*$", status, re.M), status
    assert re.search(r"^MaxFollowerLag: +0$", status, re.M), status
    done = tools.run("org.apache.kafka.tools.ClusterTool", "list-endpoints", "-b", bootstrap)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [(row[0], row[3], row[4]) for row in rows] == [(str(id), f"rack{id}", "unfenced") for id in (1, 2, 3)]
