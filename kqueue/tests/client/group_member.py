"""Members of consumer, share and streams groups, for tests of what a client sees of them."""

from __future__ import annotations

import uuid
from typing import Any

from kqueue.client.deadline import Deadline
from kqueue.client.routing import Router
from kqueue.tests.waits import eventually
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kqueue.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
}


class RawCall:
    """One message, as the router sends it."""

    repeatable = False

    def __init__(self, module: str, version: int, message: object) -> None:
        self.api = BY_MODULE[module]
        self.versions = (version, version)
        self._message = message

    def request(self, version: int) -> object:
        return self._message

    def result(self, version: int, response: Any, broker: str) -> Any:
        assert response.error_code == 0, response.error_message
        return response


class Member:
    """A member of a group named like its type, subscribed to the topic ``orders``."""

    def __init__(self, router: Router, type: str) -> None:
        self.type = type
        self.member_id = str(uuid.UUID(int=7))
        self._router = router
        self.epoch = self.beat(0).member_epoch

    def beat(self, epoch: int) -> Any:
        given: dict[str, Any] = {"group_id": self.type, "member_id": self.member_id, "member_epoch": epoch}
        if epoch == 0 and self.type == "streams":
            topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["orders"])])
            tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            given |= {"rebalance_timeout_ms": 60_000, "process_id": "p", "topology": topology, **tasks}
        elif epoch == 0:
            given["subscribed_topic_names"] = ["orders"]
            if self.type == "consumer":
                given |= {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
        message, version = {
            "consumer": (ConsumerGroupHeartbeatRequest, 1),
            "share": (ShareGroupHeartbeatRequest, 1),
            "streams": (StreamsGroupHeartbeatRequest, 0),
        }[self.type]
        call = RawCall(f"{self.type}_group_heartbeat", version, message(**given))
        return self.send(call)

    def wait_for_partitions(self, count: int) -> None:
        """Beat until so many are assigned: a share group first initializes the state of each."""

        def are_assigned() -> bool:
            response = self.beat(self.epoch)
            self.epoch = response.member_epoch
            topics = response.assignment.topic_partitions if response.assignment else ()
            return sum(len(topic.partitions) for topic in topics) == count

        eventually(are_assigned, f"{count} partitions of {self.type}")

    def send(self, call: RawCall) -> Any:
        return self._router.send_to_coordinator(self.type, call, Deadline(20_000))
