"""Kafka's own share consumer (KIP-932) sees on kqueue what it sees on Kafka: acceptance, release,
rejection, renewal, locks that end, members that leave, the delivery limit, the tools' answers.

The program is `java/ShareCalls.java`; `java/share.expected` is what it prints on Kafka 4.3.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.clients.share_member import holding
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import Process, serving
from compat_tests.kafka.tool_host import SOURCES, ToolHost

TIMEOUT_S = 120
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def test_every_call_of_a_share_consumer(tools: ToolHost, either: str) -> None:
    done = tools.run("ShareCalls", either, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == (SOURCES / "share.expected").read_text().splitlines()


QUICK = {"group.share.min.heartbeat.interval.ms": 200, "group.share.heartbeat.interval.ms": 200}
OURS = {name.replace(".", "_"): value for name, value in QUICK.items()}
GROUP = "share-travel"
"""Also its topic."""
TURNS = (
    (" ".join(f"{offset}=value{offset}x1" for offset in range(6)), ("6", "0", "1", "3")),
    ("2=value2x2 4=value4x2 5=value5x2", ("3", "4")),
    ("2=value2x3 5=value5x3", ("2", "2")),
    ("5=value5x4", ("1", "5")),
)
"""What the members of one turn after the other receive; how many they wait for, and which of them
they accept. They release the others.
"""


def take(turn: int, tools: ToolHost, bootstrap: str) -> None:
    received, arguments = TURNS[turn]
    done = tools.run("ShareCalls", bootstrap, *arguments, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == [received, "0:ok"]


@pytest.fixture
def node(kafka: Kafka) -> Kafka:
    kafka.settings = QUICK
    return kafka


def test_a_group_goes_on_with_the_other_broker_on_its_folder(tools: ToolHost, node: Kafka) -> None:
    for turn in range(len(TURNS)):
        if turn % 2 == 0:
            with node:
                take(turn, tools, node.bootstrap)
        else:
            with serving(node.data, **OURS) as broker:
                take(turn, tools, broker.bootstrap)


def test_a_group_goes_on_after_the_other_broker_was_killed(tools: ToolHost, node: Kafka, tmp_path: Path) -> None:
    """A member holds what is left when the broker dies. What was persisted comes back: not what was
    accepted, and not the count of the delivery that was lost with the broker.
    """
    for turn, left in enumerate(([2, 4, 5], [2, 5], [5])):
        broker: Kafka | Process = node if turn % 2 == 0 else Process(node.data, tmp_path / "kqueue.log", **OURS)
        with broker:
            take(turn, tools, broker.bootstrap)
            with holding(broker.bootstrap, GROUP, GROUP) as held:
                assert held == left
                broker.kill()
    with Process(node.data, tmp_path / "kqueue.log", **OURS) as process:
        take(3, tools, process.bootstrap)


def test_kafkas_tool_for_share_groups(tools: ToolHost, either: str) -> None:
    """The same answers but for the start offset, which Kafka persists one write later."""
    name = GROUP

    def run(*arguments: str) -> list[list[str]]:
        done = tools.run(TOOL, "--bootstrap-server", either, *arguments)
        assert done.status == 0, done.stderr
        return [line.split() for line in done.stdout.splitlines() if line.strip()]

    assert tools.run("ShareCalls", either, "6", "0", "1", "3", timeout_s=TIMEOUT_S).status == 0
    assert [name] in run("--list")
    described = run("--describe", "--group", name)
    assert described[0] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert [*described[1][:3], described[1][4]] == [name, name, "0", "3"]
    assert "Empty" in run("--describe", "--group", name, "--state")[1]
    topic = ("--group", name, "--topic", name)
    assert run("--reset-offsets", *topic, "--to-earliest", "--execute")[1] == [name, name, "0", "0"]
    assert run("--describe", "--group", name)[1] == [name, name, "0", "0", "6"]
    assert run("--delete-offsets", *topic)[1] == [name, "Successful"]
    assert run("--describe", "--group", name)[0][3:] == ["has", "no", "offset", "information."]
    run("--delete", "--group", name)
    assert [name] not in run("--list")
