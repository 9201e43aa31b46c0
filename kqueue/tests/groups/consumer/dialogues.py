"""Dialogues of members with a broker: the same heartbeats to Kafka and to kqueue have the same
answers.

What Kafka 4.3 answered is in `tests/data/consumer_group_dialogues.json`;
``python -m compat_tests.kafka.record_dialogues`` records it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kqueue.groups.log.schemas import (
    VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kqueue.schema import encode, reader
from kqueue.wire.messages import consumer_group_heartbeat as heartbeat
from kqueue.wire.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from kqueue.wire.messages.heartbeat import HeartbeatRequest
from kqueue.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kqueue.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kqueue.wire.messages.list_groups import ListGroupsRequest
from kqueue.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

RECORDED = Path(__file__).parents[2] / "data" / "consumer_group_dialogues.json"
TOPICS = {"t": 4, "u": 2, "v": 6}
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.assignment.interval.ms": 600,
    "group.consumer.max.size": 3,
    "group.initial.rebalance.delay.ms": 0,
}
"""Of the broker. The tests know when the next assignment is due."""
MEMBER_ID_REQUIRED = 79
INVALID_REGULAR_EXPRESSION = 128
"""Its words are those of the library."""
INTERVAL_MS = 800
SESSION_MS = 4500
Answer = Any
D = TypeVar("D")


class Broker(Protocol):
    """A broker with `TOPICS`. `ids`: topic name -> id."""

    ids: dict[str, bytes]

    def ask(self, request: Any, version: int) -> Any:
        """Return the response."""
        ...

    def wait(self, ms: int) -> None:
        """Let time pass."""
        ...


class Dialogue:
    """Requests of members of one group; each returns its answer in plain values."""

    def __init__(self, broker: Broker, group_id: str) -> None:
        self.broker = broker
        self.group_id = group_id
        self._members: dict[str, str] = {}
        self._names = {id: name for name, id in broker.ids.items()}

    def send(
        self,
        member_id: str,
        epoch: int,
        owned: dict[str, list[int]] | None = None,
        *,
        topics: list[str] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> Answer:
        """Send a heartbeat."""
        partitions = None
        if owned is not None:
            partitions = [
                heartbeat.TopicPartitions(topic_id=self.broker.ids[name], partitions=indexes)
                for name, indexes in owned.items()
            ]
        request = heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
            topic_partitions=partitions,
            **fields,
        )
        response = self.broker.ask(request, version)
        assigned = None if response.assignment is None else self._assigned(response.assignment)
        return [
            response.error_code,
            response.error_message if response.error_code != INVALID_REGULAR_EXPRESSION else "",
            response.member_id,
            response.member_epoch,
            response.heartbeat_interval_ms,
            assigned,
        ]

    def join(self, member_id: str, *names: str, **fields: Any) -> Answer:
        """Send the first heartbeat, for topics or with other fields."""
        given = {"owned": {}, "rebalance_timeout_ms": 60_000, "topics": list(names) if names else None}
        return self.send(member_id, 0, **{**given, **fields})

    def join_classic(
        self, member_id: str, *names: str, owned: dict[str, list[int]] | None = None, generation: int = -1
    ) -> Answer:
        """Send JoinGroup as a consumer of the classic protocol; a given id is used at once."""
        subscription = ConsumerProtocolSubscription(topics=list(names), generation_id=generation)
        subscription.owned_partitions = [
            TopicPartitions(topic=name, partitions=indexes) for name, indexes in (owned or {}).items()
        ]
        metadata = VERSION.pack(2) + encode(subscription, 2)
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=self._real(member_id),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        response = self.broker.ask(request, 9)
        if response.error_code == MEMBER_ID_REQUIRED:
            self._members[member_id] = response.member_id
            request.member_id = response.member_id
            response = self.broker.ask(request, 9)
        return [
            response.error_code,
            response.generation_id,
            response.protocol_type,
            response.protocol_name,
            self._named(response.leader),
            self._named(response.member_id),
            [self._named(member.member_id) for member in response.members],
        ]

    def sync_classic(self, member_id: str, generation: int, **given: list[int]) -> Answer:
        """Send SyncGroup; a leader gives itself these partitions."""
        assignments = []
        if given:
            assigned = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in given.items()]
            data = VERSION.pack(0) + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)
            assignments = [SyncGroupRequestAssignment(member_id=self._real(member_id), assignment=data)]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self._real(member_id),
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        response = self.broker.ask(request, 5)
        held = None
        if response.assignment:
            read, _ = reader(ConsumerProtocolAssignment, 0)(memoryview(bytes(response.assignment)), VERSION.size)
            held = {each.topic: sorted(each.partitions) for each in read.assigned_partitions}
        return [response.error_code, response.protocol_type, response.protocol_name, held]

    def beat_classic(self, member_id: str, generation: int) -> Answer:
        """Send Heartbeat; returns the error code."""
        request = HeartbeatRequest(group_id=self.group_id, generation_id=generation, member_id=self._real(member_id))
        return self.broker.ask(request, 4).error_code

    def leave_classic(self, member_id: str) -> Answer:
        """Send LeaveGroup; returns the error code of the member."""
        leaving = LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=self._real(member_id))])
        return [member.error_code for member in self.broker.ask(leaving, 5).members]

    def _real(self, member_id: str) -> str:
        """Return the id that the broker gave to a classic member, by the name it has here."""
        return self._members.get(member_id, "" if member_id.startswith("c") else member_id)

    def _named(self, member_id: str) -> str:
        return next((name for name, real in self._members.items() if real == member_id), member_id)

    def describe(self) -> Answer:
        """Describe the group."""
        (group,) = self.broker.ask(ConsumerGroupDescribeRequest(group_ids=[self.group_id]), 1).groups
        members = [
            [
                self._named(member.member_id),
                member.instance_id,
                member.member_epoch,
                sorted(member.subscribed_topic_names),
                member.subscribed_topic_regex,
                self._assigned(member.assignment),
                self._assigned(member.target_assignment),
                member.member_type,
            ]
            for member in sorted(group.members, key=lambda member: self._named(member.member_id))
        ]
        state = [group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name]
        return [*state, members]

    def listed(self) -> Answer:
        """List the group."""
        groups = self.broker.ask(ListGroupsRequest(), 5).groups
        return [
            [group.protocol_type, group.group_state, group.group_type]
            for group in groups
            if group.group_id == self.group_id
        ]

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.broker.wait(ms)

    def _assigned(self, assignment: heartbeat.Assignment | Assignment) -> dict[str, list[int]]:
        topics = {self._names[topic.topic_id]: sorted(topic.partitions) for topic in assignment.topic_partitions}
        return dict(sorted(topics.items()))


def requests_that_are_wrong(say: Dialogue) -> Iterator[Answer]:
    """The fields that a heartbeat must have."""
    yield say.describe()
    yield say.send("m", 1)
    yield say.send("m", -1)
    yield say.join("", "t")
    yield say.send("m", -3)
    yield say.send("m", -2)
    yield say.send("", 1)
    yield say.join("m", "t", owned={"t": [1]})
    yield say.join("m", "t", owned=None)
    yield say.join("m")
    yield say.join("m", "t", rebalance_timeout_ms=-1)
    for name in ("instance_id", "rack_id"):
        yield say.join("m", "t", **{name: ""})
    yield say.join("m", "t", server_assignor="x")
    yield say.listed()
    for member_id in "abc":
        yield say.join(member_id, "t")
    yield say.join("d", "t")
    yield say.send("a", 9)
    yield say.send("a", 1)
    yield say.send("d", 2)
    yield say.send("a", 2, instance_id="i")
    yield say.send("d", -1)


def members_that_share(say: Dialogue) -> Iterator[Answer]:
    """Joins, revocation and its confirmation, lost answers, leaving."""
    yield say.join("m1", "t")
    yield say.listed()
    yield say.join("m2", "t")
    yield say.join("m3", "t")
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m2", 2)
    yield say.describe()
    yield say.send("m1", 2)
    yield say.send("m1", 2, {"t": [0, 1, 2, 3]})
    yield say.describe()
    yield say.send("m1", 2, {"t": [0, 1]})
    yield say.send("m2", 4)
    yield say.send("m2", 2)
    yield say.send("m3", 4)
    yield say.send("m3", 2)
    yield say.describe()
    yield say.join("m1", "t")
    yield say.send("m1", 2, {"t": [0]})
    yield say.send("m1", 2, {"t": [0, 2]})
    yield say.send("m1", 4, {"t": [0, 1]}, topics=["t"], rebalance_timeout_ms=60_000)
    yield say.send("m2", -1)
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m1", 4)
    yield say.send("m3", 4)
    yield say.describe()
    yield say.send("m1", -1)
    yield say.send("m3", -1)
    yield say.describe()
    yield say.listed()
    say.wait(INTERVAL_MS)
    yield say.join("m4", "u")
    yield say.describe()


def subscriptions_that_change(say: Dialogue) -> Iterator[Answer]:
    """More topics, other topics, none."""
    yield say.join("m1", "t")
    say.wait(INTERVAL_MS)
    yield say.join("m2", "t")
    yield say.send("m1", 2)
    yield say.send("m1", 2, {"t": [0, 1]})
    yield say.send("m2", 3)
    say.wait(INTERVAL_MS)
    yield say.send("m1", 3, topics=["t", "u"])
    yield say.describe()
    yield say.send("m1", 3, {})
    yield say.send("m2", 3)
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m2", 4, topics=["u", "nothing"])
    yield say.send("m2", 4, {})
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m1", 4, topics=[])
    yield say.describe()


def static_members(say: Dialogue) -> Iterator[Answer]:
    """Leaving for a while, coming back, fencing."""
    yield say.join("s1", "t", instance_id="i")
    yield say.join("s2", "t", instance_id="i")
    yield say.join("s1", "t", instance_id="i")
    yield say.send("s1", 2, instance_id="i")
    yield say.send("s2", 2, instance_id="i")
    yield say.send("s2", 2, instance_id="j")
    yield say.send("s1", 2)
    yield say.send("s1", -2, instance_id="i")
    yield say.describe()
    yield say.send("s1", 2, instance_id="i")
    yield say.join("s2", "t", instance_id="i")
    yield say.describe()
    yield say.send("s1", 2, instance_id="i")
    yield say.send("s1", -1, instance_id="i")
    yield say.send("s2", -1, instance_id="i")
    yield say.describe()


def patterns(say: Dialogue) -> Iterator[Answer]:
    """Topics by a pattern."""
    yield say.join("r1", subscribed_topic_regex="[")
    yield say.join("r1", subscribed_topic_regex="t|t[0-9]")
    say.wait(INTERVAL_MS)
    yield say.send("r1", 1)
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.join("r2", subscribed_topic_regex="t|t[0-9]")
    yield say.send("r1", 2)
    yield say.describe()
    yield say.send("r1", -1)
    yield say.send("r2", -1)
    yield say.describe()


def silent_members(say: Dialogue) -> Iterator[Answer]:
    """Sessions end."""
    yield say.join("m1", "t")
    yield say.join("m2", "t", instance_id="i")
    yield say.send("m2", -2, instance_id="i")
    say.wait(SESSION_MS)
    yield say.describe()
    yield say.send("m1", 2)


def the_range_assignor(say: Dialogue) -> Iterator[Answer]:
    """Chosen by the members."""
    yield say.join("a", "t", "u", server_assignor="range")
    say.wait(INTERVAL_MS)
    yield say.join("b", "t", "u", server_assignor="range", instance_id="i")
    yield say.send("a", 2, {})
    yield say.send("b", 3)
    yield say.describe()


def members_of_both_protocols(say: Dialogue) -> Iterator[Answer]:
    """A classic group is upgraded, a classic member joins and leaves, the group is downgraded."""
    yield say.join_classic("c1", "v")
    yield say.sync_classic("c1", 1, v=[0, 1, 2, 3, 4, 5])
    yield say.join("n", "v")
    yield say.describe()
    yield say.beat_classic("c1", 1)
    yield say.join_classic("c1", "v", owned={"v": [0, 1, 2, 3, 4, 5]}, generation=1)
    yield say.sync_classic("c1", 1)
    yield say.beat_classic("c1", 1)
    yield say.describe()
    yield say.join_classic("c1", "v", owned={"v": [0, 1, 2]}, generation=1)
    yield say.sync_classic("c1", 2)
    yield say.beat_classic("c1", 2)
    yield say.beat_classic("c1", 1)
    yield say.sync_classic("c1", 1)
    yield say.beat_classic("x", 2)
    yield say.beat_classic("n", 2)
    yield say.send("n", 2)
    yield say.describe()
    yield say.listed()
    say.wait(INTERVAL_MS)
    yield say.join_classic("c2", "v")
    yield say.describe()
    yield say.sync_classic("c2", 3)
    yield say.beat_classic("c2", 3)
    yield say.beat_classic("c1", 2)
    yield say.leave_classic("c2")
    yield say.describe()
    yield say.send("n", -1)
    yield say.listed()
    yield say.beat_classic("c1", 2)
    yield say.beat_classic("c1", 4)


DIALOGUES: tuple[Callable[[Dialogue], Iterator[Answer]], ...] = (
    requests_that_are_wrong,
    members_that_share,
    subscriptions_that_change,
    static_members,
    patterns,
    silent_members,
    the_range_assignor,
    members_of_both_protocols,
)


def answers(
    broker: Broker, dialogue: Callable[[D], Iterator[Answer]], speaker: Callable[[Broker, str], D]
) -> list[Answer]:
    """Hold a dialogue; returns its answers as JSON has them. `speaker`: what sends its requests."""
    said = list(dialogue(speaker(broker, f"g-{dialogue.__name__}")))
    result: list[Answer] = json.loads(json.dumps(said))
    return result
