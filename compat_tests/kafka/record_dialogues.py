"""``python -m compat_tests.kafka.record_dialogues``: record what Kafka answers to members of
consumer groups and streams groups, for the default tests.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from compat_tests.kafka.admin_scenarios import Ask, created, topic
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.test_admin_answers import asking
from compat_tests.waits import look_until
from kqueue.tests.groups.consumer import dialogues as consumer
from kqueue.tests.groups.consumer.dialogues import TOPICS, Dialogue, answers
from kqueue.tests.groups.streams import dialogues as streams
from kqueue.tests.groups.streams.dialogues import StreamsDialogue
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


class RealBroker:
    """A broker at the other end of a connection."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        created(ask, *[topic(name, count, 1) for name, count in TOPICS.items()])
        self._wait_for_coordinator()
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        self.ids: dict[str, bytes] = {str(each.name): each.topic_id for each in ask(request, 12).topics}

    def _wait_for_coordinator(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        look_until(lambda: self.ask(request, 4).coordinators[0].error_code, lambda code: code == 0, "a coordinator")
        time.sleep(2)  # its partitions are loaded one after another

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)


def kafkas_answers(node: Kafka) -> dict[str, Any]:
    """Hold all dialogues with a node that runs."""
    with asking(node.bootstrap) as ask:
        broker = RealBroker(ask)
        return {dialogue.__name__: answers(broker, dialogue, Dialogue) for dialogue in consumer.DIALOGUES}


def kafkas_answers_to_streams(node: Kafka) -> dict[str, Any]:
    """As `kafkas_answers`, with members of streams groups."""
    with asking(node.bootstrap) as ask:
        broker = RealBroker(ask)
        return {dialogue.__name__: answers(broker, dialogue, StreamsDialogue) for dialogue in streams.DIALOGUES}


def main() -> None:
    for module, ask_all in ((consumer, kafkas_answers), (streams, kafkas_answers_to_streams)):
        with tempfile.TemporaryDirectory() as folder:
            node = Kafka(Path(folder) / "kafka", settings=module.SETTINGS)
            node.format()
            with node:
                by_dialogue = ask_all(node)
        module.RECORDED.write_text(json.dumps(by_dialogue, indent=1) + "\n")


if __name__ == "__main__":
    main()
