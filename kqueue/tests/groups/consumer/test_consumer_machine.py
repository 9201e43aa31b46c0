"""Members of a consumer group do anything in any order, while time passes, the log stalls or fails,
and the broker dies. What must hold: a partition has one owner, also in the members' own eyes; a
replay of the log gives what is in memory; in the end all members have their target.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import FencedInstanceId, GroupIdNotFound, StorageFailed, UnknownMember
from kqueue.base.promise import Promise
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import HeartbeatResult
from kqueue.groups.errors import FencedMemberEpoch
from kqueue.tests.groups.support import World, leave_and_return

FENCED = (FencedMemberEpoch, UnknownMember, FencedInstanceId, GroupIdNotFound)
PICK = st.integers(0, 100)
TOPICS = st.sampled_from([["t"], ["t", "u"], ["u"], []])
INSTANCES = st.sampled_from([None, None, None, "i", "j"])


class Client:
    """A member as it sees itself; `owned` is what it reads."""

    def __init__(self, member_id: str, instance_id: str | None, topics: list[str]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.wanted: dict[bytes, set[int]] = {}
        self.answer: Promise[HeartbeatResult] | None = None
        self.is_gone = False


class ConsumerGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(group_consumer_assignment_interval_ms=100)
        self.clients: list[Client] = []
        self.count = 0
        self.partitions = 4

    # --- what members do

    @rule(instance_id=INSTANCES, topics=TOPICS)
    def come(self, instance_id: str | None, topics: list[str]) -> None:
        if instance_id is not None and any(one.instance_id == instance_id for one in self.clients):
            return
        self.count += 1
        client = Client(f"m{self.count}", instance_id, topics)
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def send(self, pick: int) -> None:
        self.beat(self.clients[pick % len(self.clients)])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, topics=TOPICS)
    def change(self, pick: int, topics: list[str]) -> None:
        client = self.clients[pick % len(self.clients)]
        client.topics = topics
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, is_away=st.booleans())
    def leave(self, pick: int, is_away: bool) -> None:
        client = self.clients.pop(pick % len(self.clients))
        client.owned = {}
        epoch = -2 if is_away and client.instance_id is not None else -1
        promise = self.world.beat_consumer(client.member_id, epoch, instance_id=client.instance_id)
        assert promise.done or self.world.log.held

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def die(self, pick: int) -> None:
        """It stops to read, and says nothing."""
        self.clients.pop(pick % len(self.clients))

    @rule()
    def work(self) -> None:
        self.read_answers()
        for client in list(self.clients):
            self.beat(client)

    def beat(self, client: Client) -> None:
        """Send a heartbeat, unless one is under way. A member revokes before it says so."""
        if client.answer is not None:
            return
        client.owned = {topic: indexes & client.wanted.get(topic, set()) for topic, indexes in client.owned.items()}
        owned = {topic: frozenset(indexes) for topic, indexes in client.owned.items() if indexes}
        if client.epoch == 0:
            client.owned, client.wanted, owned = {}, {}, {}
        client.answer = self.world.beat_consumer(
            client.member_id,
            client.epoch,
            instance_id=client.instance_id,
            topics=client.topics,
            owned=owned,
            rebalance_timeout_ms=20_000,
        )
        self.read_answers()

    @invariant()
    def read_answers(self) -> None:
        for client in self.clients:
            if client.answer is None or not client.answer.done:
                continue
            promise, client.answer = client.answer, None
            if isinstance(promise.error, FENCED):
                client.epoch, client.owned, client.wanted = 0, {}, {}
            elif promise.error is None:
                result = promise.result()
                client.epoch = result.member_epoch
                if result.assigned is not None:
                    client.wanted = {topic: set(indexes) for topic, indexes in result.assigned.items()}
                    client.owned = {topic: set(indexes) for topic, indexes in client.owned.items()}
                    for topic, indexes in client.wanted.items():
                        client.owned.setdefault(topic, set()).update(indexes)

    # --- what happens to them

    @rule(ms=st.sampled_from([0, 50, 100, 1000, 5000, 20_000, 45_000]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)
        if ms >= 20_000:  # whoever was removed meanwhile has noticed that it can't reach the broker
            for client in self.clients:
                group = self.group
                if group is None or client.member_id not in group.members:
                    client.epoch, client.owned, client.wanted = 0, {}, {}

    @rule()
    def stall(self) -> None:
        self.world.log.hold = True

    @rule()
    def flow(self) -> None:
        self.world.log.hold = False
        while self.world.log.held:
            self.world.log.release(1)
        self.check_replay()

    @precondition(lambda self: self.world.log.held)
    @rule()
    def break_log(self) -> None:
        self.world.log.fail(StorageFailed("the disk is gone"))

    @rule()
    def add_partitions(self) -> None:
        if self.partitions < 7:
            self.partitions += 1
            self.world.topics.put("t", self.partitions)

    @rule()
    def restart(self) -> None:
        """Power is cut: what was not committed is lost, and so are all answers that were due."""
        self.world = self.world.restarted(group_consumer_assignment_interval_ms=100)
        for client in self.clients:
            client.answer = None

    @rule(survive=st.integers(0, 3))
    def move(self, survive: int) -> None:
        """Another broker leads the log for a while."""
        leave_and_return(self.world, survive)
        assert all(client.answer is None or client.answer.done for client in self.clients)
        self.read_answers()

    # --- what must hold

    @property
    def group(self) -> ConsumerGroup | None:
        return self.world.groups.consumer.find("g")

    @invariant()
    def a_partition_has_one_reader(self) -> None:
        """A member that can't know yet that it was removed may still read: only live ones count."""
        group = self.group
        readers: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            if group is None or client.member_id not in group.members or client.epoch == 0:
                continue
            for topic, indexes in client.owned.items():
                for index in indexes:
                    other = readers.setdefault((topic, index), client.member_id)
                    assert other == client.member_id, f"{topic!r} {index} is read by {other} and {client.member_id}"

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            for partitions in (member.current.assigned, member.current.revoking):
                for topic, indexes in partitions.items():
                    for index in indexes:
                        assert (topic, index) not in owners
                        owners[topic, index] = member_id
                        assert group.owner(topic, index) == member_id
            assert member_id in group.sessions or self.world.log.held, "a silent member is removed"
            assert group.epoch >= group.target_epoch >= member.current.epoch

    def check_replay(self) -> None:
        """A replay gives what is in memory."""
        again = self.world.restarted()
        assert described(again.groups.consumer.find("g")) == described(self.group)

    def teardown(self) -> None:
        self.flow()
        for _ in range(60):
            self.work()
            self.world.advance(1000)
        group = self.group
        if group is not None:
            assert set(group.members) == {client.member_id for client in self.clients}
            for client in self.clients:
                target = {topic: set(indexes) for topic, indexes in group.target_of(client.member_id).items()}
                assert {topic: indexes for topic, indexes in client.owned.items() if indexes} == target
            assert group.state.value in ("Stable", "Empty")
            self.everything_is_read(group)

    def everything_is_read(self, group: ConsumerGroup) -> None:
        for name in group.subscribed_topics():
            topic = self.world.topics.find(name)
            assert topic is not None
            assert all(group.owner(topic.id, index) is not None for index in range(topic.partition_count))


def described(group: ConsumerGroup | None) -> Any:
    """Everything of a group that its records say."""
    if group is None:
        return None
    targets = {member_id: target for member_id, target in group.targets.items() if target}
    return (
        group.group_epoch,
        group.target,
        group.members,
        targets,
        group.regexes,
        group.state,
        group.member_bytes,
        group._owners,
    )


ConsumerGroups.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestConsumerGroups = ConsumerGroups.TestCase
