"""kqueue answers members as Kafka 4.3 did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kqueue.tests.api.group_client import world
from kqueue.tests.groups.consumer.dialogues import DIALOGUES, RECORDED, SETTINGS, TOPICS, Answer, Dialogue, answers
from kqueue.tests.tables import for_each


class SimulatedBroker:
    """kqueue under a manual clock."""

    def __init__(self, given: Mapping[str, object] = SETTINGS) -> None:
        settings = {name.replace(".", "_"): value for name, value in given.items()}
        self._client = world(**settings)
        sim = self._client.sim
        for name, count in TOPICS.items():
            if sim.broker.topics.find(name) is None:
                sim.topic(name, count)
        sim.result(sim.broker.topics.add_partitions("t", TOPICS["t"]))
        self.ids = {name: sim.broker.topics.get(name).id for name in TOPICS}

    def ask(self, request: Any, version: int) -> Any:
        self._client.sim.advance(1)
        pending = self._client.start(request, version)
        self._client.sim.settle()
        self._client.sim.advance(0)
        return pending.response

    def wait(self, ms: int) -> None:
        self._client.sim.advance(ms)


@for_each("dialogue", DIALOGUES)
def test_the_answers_are_kafkas(dialogue: Callable[[Dialogue], Iterator[Answer]]) -> None:
    recorded = json.loads(RECORDED.read_text())[dialogue.__name__]
    assert answers(SimulatedBroker(), dialogue, Dialogue) == recorded
