"""Kafka's own clients and tools while brokers of a cluster of three are killed and stopped."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

import kqueue
from compat_tests.kafka import jvm
from compat_tests.kafka.tool_host import ToolHost, ToolResult
from compat_tests.waits import eventually_equal, look_until
from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.coordinators import coordinator_partition
from kqueue.client import Client

T = TypeVar("T")
SETTINGS: dict[str, object] = {
    "min.insync.replicas": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.record.lock.duration.ms": 15_000,
}
RACKS = ("rack-0", "rack-1", "rack-2")
COUNT = 1500
TRANSACTIONS = 60
PER_TRANSACTION = 5
TIMEOUT_S = 60
WAIT_S = 30


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kqueue.Cluster]:
    with kqueue.Cluster(3, tmp_path_factory.mktemp("cluster"), racks=RACKS, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: kqueue.Cluster) -> Iterator[kqueue.Cluster]:
    """All brokers run, in sync; those that a test ended are started after it."""
    yield running
    running.restore()


@pytest.fixture
def topic(cluster: kqueue.Cluster, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    cluster.create_topic(name)
    return name


class Job:
    """A Java program that runs beside the test."""

    def __init__(self, pool: ThreadPoolExecutor, tools: ToolHost, *words: object) -> None:
        self._result: Future[ToolResult] = pool.submit(tools.run, "Failover", *words, timeout_s=TIMEOUT_S)

    def end(self) -> list[str]:
        """Return the words that it has printed."""
        done = self._result.result()
        assert done.status == 0, done.stderr
        return done.stdout.split()

    def until(self, look: Callable[[], T], holds: Callable[[T], object], what: str) -> None:
        """Return once something holds of what `look` returns. The program must not end before."""

        def seen() -> T:
            assert not self._result.done(), self._result.result().stderr
            return look()

        look_until(seen, holds, what)


@pytest.fixture
def run(tools: ToolHost, cluster: kqueue.Cluster) -> Iterator[Callable[..., Job]]:
    """Start `Failover`: ``run("stream", topic, 100)``."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda how, *words: Job(pool, tools, how, cluster.bootstrap, *words)


def values(cluster: kqueue.Cluster, topic: str) -> list[str]:
    """Return the committed records of a topic, as its leader has them."""
    leader = cluster.wait_leader(topic)
    return [(record.value or b"").decode() for record in cluster[leader].topics[topic].records(read_committed=True)]


def append(cluster: kqueue.Cluster, topic: str, values: list[str]) -> None:
    cluster[cluster.wait_leader(topic)].topics[topic].produce_all(values)


def change_leader(cluster: kqueue.Cluster, event: str, topic: str, partition: int = 0) -> None:
    """Let another broker lead the partition, and start the former leader again."""
    leader = cluster.wait_leader(topic, partition)
    if event == "killed":
        cluster.kill(leader)
    elif event == "stopped":
        cluster.stop(leader)
    else:
        cluster.elect(topic, partition, leader=(leader + 1) % 3)
    cluster.wait_leader(topic, partition, other_than=leader)
    cluster.restore()


EVENTS = pytest.mark.parametrize("event", ["killed", "stopped", "moved"])


@EVENTS
def test_a_stream_is_written_once(cluster: kqueue.Cluster, run: Callable[..., Job], topic: str, event: str) -> None:
    job = run("stream", topic, COUNT)
    for part in (1, 2):
        job.until(lambda: len(values(cluster, topic)), (part * COUNT // 4).__lt__, "records")
        change_leader(cluster, event, topic)
    job.end()
    assert values(cluster, topic) == [str(number) for number in range(COUNT)]


@EVENTS
def test_transactions_are_whole(cluster: kqueue.Cluster, run: Callable[..., Job], topic: str, event: str) -> None:
    job = run("transactions", topic, TRANSACTIONS)
    coordinator = coordinator_partition(topic, 4)
    for part, changed in ((1, (topic, 0)), (2, ("__transaction_state", coordinator))):
        job.until(lambda: len(values(cluster, topic)), (part * TRANSACTIONS).__lt__, "records")
        change_leader(cluster, event, *changed)
    job.end()
    assert values(cluster, topic) == [
        f"{number}.{at}" for number in range(TRANSACTIONS) if number % 4 != 3 for at in range(PER_TRANSACTION)
    ]


@pytest.mark.parametrize("event", ["killed", "moved"])
@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_a_group_reads_all(
    cluster: kqueue.Cluster, run: Callable[..., Job], topic: str, protocol: str, event: str
) -> None:
    group = f"group-of-{topic}"
    if protocol == "share":
        with Client(cluster.bootstrap) as client:
            change = ConfigChange(ConfigOperation.SET, "share.auto.offset.reset", "earliest")
            client.alter_configs(ResourceType.GROUP, group, [change])
    expected = [str(number) for number in range(60)]
    append(cluster, topic, expected[:20])
    job = run(protocol, topic, group, len(expected))
    job.until(lambda: "__consumer_offsets" in cluster[0].topics, bool, "the topic of offsets")
    for end, changed in ((40, (topic, 0)), (60, ("__consumer_offsets", coordinator_partition(group, 4)))):
        time.sleep(1)  # the member has joined, and has read what there is
        change_leader(cluster, event, *changed)
        append(cluster, topic, expected[end - 20 : end])
    words = job.end()
    assert words == expected if protocol != "share" else sorted(words) == sorted(expected)


def test_a_consumer_reads_the_replica_of_its_rack(cluster: kqueue.Cluster, run: Callable[..., Job], topic: str) -> None:
    leader = cluster.wait_leader(topic)
    follower = (leader + 1) % 3
    for broker in cluster.brokers:
        broker.requests.clear()
    append(cluster, topic, ["0"])
    job = run("rack", topic, RACKS[follower], 2)
    job.until(lambda: cluster[follower].requests(api="Fetch", topic=topic), bool, "a fetch")
    append(cluster, topic, ["1"])
    assert job.end() == ["0", "1"]


def test_tools_show_what_a_broker_that_is_down_lacks(
    cluster: kqueue.Cluster, tools: ToolHost, topic: str, tmp_path: Path
) -> None:
    def tool(name: str, *arguments: object) -> str:
        done = tools.run(f"org.apache.kafka.tools.{name}", "--bootstrap-server", cluster.bootstrap, *arguments)
        assert done.status == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr[:4000]}"
        return done.stdout

    def shown(*flags: str) -> str:
        return tool("TopicCommand", "--describe", "--topic", topic, *flags).strip()

    assert shown("--under-replicated-partitions") == ""
    cluster.elect(topic, leader=0)
    cluster.kill(2)
    eventually_equal(lambda: cluster.isr(topic), [0, 1], "in sync")
    assert re.search(r"Leader: 0\tReplicas: \S+\tIsr: (0,1|1,0)\t", shown("--under-replicated-partitions"))
    assert shown("--at-min-isr-partitions") != ""
    assert shown("--under-min-isr-partitions") == ""
    cluster.kill(1)
    eventually_equal(lambda: cluster.isr(topic), [0], "in sync")
    assert shown("--under-min-isr-partitions") != ""
    assert re.search(r"\tElr: 1", shown()), shown()
    status = tool("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"^LeaderId: +0$", status, re.M), status
    arguments = ("-b", cluster.bootstrap)
    endpoints = tools.run(
        "org.apache.kafka.tools.ClusterTool", "list-endpoints", *arguments, "--include-fenced-brokers"
    )
    states = {row.split()[0]: row.split()[4] for row in endpoints.stdout.splitlines()[1:]}
    assert states == {"0": "unfenced", "1": "fenced", "2": "fenced"}
    cluster.restore()
    eventually_equal(lambda: shown("--under-replicated-partitions"), "", "under-replicated")


def test_a_broker_that_is_gone_is_unregistered(cluster: kqueue.Cluster, tools: ToolHost) -> None:
    """Its replicas are moved away before; it may register again."""

    def endpoints() -> list[str]:
        arguments = ("-b", cluster.bootstrap, "--include-fenced-brokers")
        done = tools.run("org.apache.kafka.tools.ClusterTool", "list-endpoints", *arguments)
        return [row.split()[0] for row in done.stdout.splitlines()[1:]]

    def unregister(node: int) -> ToolResult:
        return tools.run("org.apache.kafka.tools.ClusterTool", "unregister", "-b", cluster.bootstrap, "--id", node)

    assert endpoints() == ["0", "1", "2"]
    cluster.stop(2)
    gone = "is no longer registered"  # others may hear of its stop later
    look_until(lambda: unregister(2), lambda done: gone in done.stdout, gone)
    eventually_equal(endpoints, ["0", "1"], "endpoints")
    assert "BrokerIdNotRegistered" in unregister(2).stderr
    cluster.start(2)
    eventually_equal(endpoints, ["0", "1", "2"], "endpoints")


def test_the_tool_elects_a_leader_that_lacks_records(cluster: kqueue.Cluster, tools: ToolHost, topic: str) -> None:
    """Only an unclean election, which an operator asks for, lets it lead."""
    cluster.create_topic("lost", replicas={0: [0, 1]}, **{"min.insync.replicas": 1})
    append(cluster, "lost", ["kept"])
    cluster.kill(1)
    eventually_equal(lambda: cluster.isr("lost"), [0], "in sync")
    append(cluster, "lost", ["lost"])
    cluster.kill(0)
    cluster.start(1)
    eventually_equal(lambda: cluster.leader("lost"), None, "leader")
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", "lost", "--partition", 0, "--election-type")
    refused = tools.run("org.apache.kafka.tools.LeaderElectionCommand", *arguments, "PREFERRED")
    assert refused.status != 0 or "error" in (refused.stdout + refused.stderr).lower()
    done = tools.run("org.apache.kafka.tools.LeaderElectionCommand", *arguments, "UNCLEAN")
    assert done.stdout == "Successfully completed leader election (UNCLEAN) for partitions lost-0\n", done
    assert cluster.wait_leader("lost") == 1
    assert values(cluster, "lost") == ["kept"]
    cluster.start(0)
    cluster.wait_in_sync("lost")


def test_the_tool_finds_all_replicas_equal(cluster: kqueue.Cluster, topic: str) -> None:
    """ReplicaVerificationTool does not end by itself."""
    append(cluster, topic, [str(number) for number in range(100)])
    arguments = ("--broker-list", cluster.bootstrap, "--topics-include", topic, "--report-interval-ms", "500")
    command = jvm.command("org.apache.kafka.tools.ReplicaVerificationTool", *arguments, "--time", "-2")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        killer = threading.Timer(WAIT_S, process.kill)
        killer.start()
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if re.search(rf"max lag is 0 for partition {topic}-0 at offset 100 among 1 partitions", line):
                    break
            else:
                raise AssertionError("".join(said)[-4000:])
        finally:
            killer.cancel()
            process.kill()
