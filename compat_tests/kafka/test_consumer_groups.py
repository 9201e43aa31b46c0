"""Consumer groups of KIP-848: what Kafka answers to members is what the default tests compare
kqueue with, and each broker goes on with the groups of the other's folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.test_consumer_protocol import Member, all_of, produce
from compat_tests.kafka import clients
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.record_dialogues import kafkas_answers
from compat_tests.kafka.serving import serving
from compat_tests.kafka.test_admin_answers import asking
from compat_tests.kafka.tool_host import ToolHost
from compat_tests.waits import eventually, look_until
from kqueue.tests.groups.consumer.dialogues import RECORDED, SETTINGS
from kqueue.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

SHORT = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.assignment.interval.ms": 100,
}
LASTING = {**SHORT, "group.consumer.session.timeout.ms": 60_000}
"""Members that stay away while brokers stop and start are not missed, on a slow machine either."""
GROUP, TOPIC = "g", "shared"
JAVA_TIMEOUT_S = 80
JAVA_STEPS = [
    "first=reached",
    "shared=reached",
    "read=reached",
    "committed=10",
    "left=reached",
    "again=0",
    "before=reached",
    "died=reached",
    "static=reached",
    "came back=reached",
    "stayed away=reached",
    "pattern=reached",
    "new topic=reached",
    "state=Empty",
]


def test_the_recorded_dialogues_are_kafkas(formatted: Kafka, tmp_path: Path) -> None:
    node = Kafka(tmp_path / "kafka", settings=SETTINGS).copy_from(formatted)
    with node:
        assert kafkas_answers(node) == json.loads(RECORDED.read_text())


@contextmanager
def run(broker: str, node: Kafka) -> Iterator[str]:
    """Run a broker on the folder of the node, with its settings."""
    if broker == "kafka":
        with Kafka(node.place, settings=node.settings, ports=node.ports):
            yield node.bootstrap
    else:
        with serving(node.data, **{name.replace(".", "_"): value for name, value in node.settings.items()}) as ours:
            yield ours.bootstrap


def described(bootstrap: str) -> Any:
    """The group, as it was left: without its members' addresses."""
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    with asking(bootstrap) as ask:
        return look_until(
            lambda: ask(request, 1).groups[0], lambda group: group.error_code in (0, 69), f"a description of {GROUP}"
        )


@pytest.mark.parametrize("turns", [("kafka", "kqueue", "kafka"), ("kqueue", "kafka", "kqueue")], ids="-".join)
def test_a_group_goes_on_in_the_others_folder(formatted: Kafka, tmp_path: Path, turns: tuple[str, ...]) -> None:
    """Static members stay away while the brokers change: they find their partitions, without a
    rebalance, and the offsets.
    """
    node = Kafka(tmp_path / "kafka", settings=LASTING).copy_from(formatted)
    with run("kafka", node) as bootstrap:  # its metadata must know the topics
        clients.create_topic(bootstrap, TOPIC, 4)
        clients.commit(bootstrap, "other", {(TOPIC, 0): 0})
    former: Any = None
    for number, turn in enumerate(turns):
        with run(turn, node) as bootstrap:
            if number:
                description = described(bootstrap)
                assert (description.error_code, description.group_epoch, description.assignment_epoch) == (
                    0,
                    former.group_epoch,
                    former.assignment_epoch,
                )
                assert members_of(description) == members_of(former)
            read = take_part(bootstrap, number)
            assert sorted(read) == sorted(range(number * 20, number * 20 + 20)), "each record once"
            former = described(bootstrap)


def members_of(group: Any) -> dict[str, Any]:
    return {
        member.instance_id: (
            member.member_id,
            member.member_epoch,
            sorted(member.subscribed_topic_names),
            sorted((topic.topic_id, tuple(topic.partitions)) for topic in member.target_assignment.topic_partitions),
        )
        for member in group.members
    }


def take_part(bootstrap: str, number: int) -> list[int]:
    """Two static members read 20 records, commit, and leave for a while. Returns what they read."""
    with (
        Member(bootstrap, GROUP, [TOPIC], group_instance_id="a") as one,
        Member(bootstrap, GROUP, [TOPIC], group_instance_id="b") as two,
    ):
        eventually(lambda: sorted(one.held + two.held) == all_of(TOPIC, 4) and len(one.held) == 2, "they share")
        produce(bootstrap, TOPIC, 4, 20, start=number * 20)
        eventually(lambda: len(one.values) + len(two.values) >= 20, "they have read 20 records")
        for member in (one, two):
            member.commit()
        return [int(value) for value in one.values + two.values]


@pytest.mark.parametrize("broker", ["kafka", "kqueue"])
def test_javas_consumers_join_leave_die_come_back_and_follow_patterns(
    tools: ToolHost, formatted: Kafka, tmp_path: Path, broker: str
) -> None:
    node = Kafka(tmp_path / "kafka", settings=SHORT)
    if broker == "kafka":
        node.copy_from(formatted)
    with run(broker, node) as bootstrap:
        done = tools.run("ConsumerGroups", bootstrap, timeout_s=JAVA_TIMEOUT_S)
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == JAVA_STEPS, done.stderr
