"""kqueue answers members of streams groups as Kafka 4.3 did."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from kqueue.tests.groups.consumer.dialogues import Answer, answers
from kqueue.tests.groups.consumer.test_recorded_dialogues import SimulatedBroker
from kqueue.tests.groups.streams.dialogues import DIALOGUES, RECORDED, SETTINGS, StreamsDialogue
from kqueue.tests.tables import for_each


@for_each("dialogue", DIALOGUES)
def test_the_answers_are_kafkas(dialogue: Callable[[StreamsDialogue], Iterator[Answer]]) -> None:
    recorded = json.loads(RECORDED.read_text())[dialogue.__name__]
    assert answers(SimulatedBroker(SETTINGS), dialogue, StreamsDialogue) == recorded
