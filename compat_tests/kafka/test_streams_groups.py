"""Streams groups of KIP-1071: what Kafka answers to members is what the default tests compare
kqueue with, and each broker goes on with the groups of the other's folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.kafka import clients
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.record_dialogues import kafkas_answers_to_streams
from compat_tests.kafka.serving import serving
from compat_tests.kafka.test_admin_answers import asking
from compat_tests.waits import HangLimit, look_until
from kqueue.tests.groups.streams.dialogues import RECORDED, SETTINGS, StreamsDialogue, internal
from kqueue.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, Subtopology, Topology

SHORT = {
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.num.standby.replicas": 1,
}
"""The session is Kafka's: it outlives the change of the brokers."""
GROUP, SOURCE, CHANGELOG = "app", "lines", "app-counts-changelog"
COUNT = Topology(
    subtopologies=[
        Subtopology(
            subtopology_id="0",
            source_topics=[SOURCE],
            state_changelog_topics=[internal(CHANGELOG, cleanup_policy="compact")],
        )
    ]
)
NOT_READY_CODES = (14, 15, 16)
EPOCH = 3


def test_the_recorded_dialogues_are_kafkas(formatted: Kafka, tmp_path: Path) -> None:
    node = Kafka(tmp_path / "kafka", settings=SETTINGS).copy_from(formatted)
    with node:
        assert kafkas_answers_to_streams(node) == json.loads(RECORDED.read_text())


class Talk(StreamsDialogue):
    """Requests over a connection, with time to wait for the coordinator."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask
        super().__init__(self, GROUP)  # type: ignore[arg-type]

    def ask(self, request: Any, version: int) -> Any:
        return self._ask(request, version)

    def ready(self) -> Any:
        """Return the description of the group once the coordinator has loaded it."""
        return look_until(self.describe, lambda group: group[0] not in NOT_READY_CODES, "a group that is loaded")


@contextmanager
def talking(broker: str, node: Kafka) -> Iterator[Talk]:
    """Run a broker on the folder of the node, and connect to it."""
    if broker == "kafka":
        with Kafka(node.place, settings=SHORT, ports=node.ports), asking(node.bootstrap) as ask:
            yield Talk(ask)
    else:
        settings = {name.replace(".", "_"): value for name, value in SHORT.items()}
        with serving(node.data, **settings) as ours, asking(ours.bootstrap) as ask:
            yield Talk(ask)


@pytest.mark.parametrize("turns", [("kafka", "kqueue", "kafka"), ("kqueue", "kafka", "kqueue")], ids="-".join)
def test_a_group_goes_on_in_the_others_folder(formatted: Kafka, tmp_path: Path, turns: tuple[str, ...]) -> None:
    """Topology, members, tasks and epochs are what the other broker wrote; members stay."""
    node = Kafka(tmp_path / "kafka", settings=SHORT).copy_from(formatted)
    with Kafka(node.place, settings=SHORT, ports=node.ports):  # its metadata must know the topics
        clients.create_topic(node.bootstrap, SOURCE, 4)
        clients.create_topic(node.bootstrap, CHANGELOG, 4)
        clients.commit(node.bootstrap, "other", {(SOURCE, 0): 0})
    former: Any = None
    for turn in turns:
        with talking(turn, node) as talk:
            answer = talk.ready()
            if former is None:
                form_a_group(talk)
            else:
                # internal topics have their partitions once a heartbeat has looked at them
                assert [*answer[:5], answer[6]] == [*former[:5], former[6]]
            for member_id in ("m", "n"):
                stayed = talk.send(member_id, EPOCH, endpoint_information_epoch=-1)
                assert (stayed[0], stayed[3], stayed[8]) == (0, EPOCH, None), stayed
            former = talk.describe()
            assert former[2:5] == ["Stable", EPOCH, EPOCH]


def form_a_group(talk: Talk) -> None:
    """Two members in two processes have two active tasks, and copies of the other's, each."""
    endpoint = Endpoint(host="h", port=9)
    look_until(lambda: talk.join("m", COUNT, user_endpoint=endpoint), lambda answer: answer[0] == 0, "m has joined")
    talk.join("n", COUNT, client_tags=[KeyValue(key="zone", value="a")])
    held: dict[str, Any] = {"m": None, "n": None}
    limit = HangLimit("members that share")
    while True:
        for member_id in held:
            described = {member[0]: member for member in talk.describe()[6]}[member_id]
            active, standby, _ = (dict(role) for role in described[8])
            talk.send(member_id, described[1], active, standby)
        members = talk.describe()[6]
        if all(member[1] == EPOCH and member[8] == member[9] for member in members):
            assert [[sum(len(tasks) for _, tasks in role) for role in member[8]] for member in members] == [
                [2, 2, 0],
                [2, 2, 0],
            ]
            return
        limit.check(members)
