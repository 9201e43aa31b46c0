"""Members of a consumer, share or streams group do anything in any order, while time passes, the
log stalls or fails, and the broker dies. What must hold in each type: what has one owner has one,
also in the members' own eyes; a replay of the log gives what is in memory; in the end all members
have their target.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import FencedInstanceId, GroupIdNotFound, InvalidRequest, StorageFailed, UnknownMember
from kqueue.base.promise import Promise
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.group import GroupType
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.share.member import ShareHeartbeat
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import SubtopologyRole, TaskRole
from kqueue.tests.groups.streams.applications import COUNT, make_topics, new_world, start
from kqueue.tests.groups.support import World, leave_and_return
from kqueue.tests.thorough import examples

AnyGroup = ModernGroup[Any, Any]
Owned = dict[Any, set[int]]
FENCED = (FencedMemberEpoch, UnknownMember, FencedInstanceId, GroupIdNotFound)
PICK = st.integers(0, 100)
TOPICS = st.sampled_from([["t"], ["t", "u"], ["u"], []])
SOME_TOPICS = st.sampled_from([["t"], ["t", "u"], ["u"]])
INSTANCES = st.sampled_from([None, None, None, "i", "j"])
IN_MEMORY = {"sessions", "revocations", "deadlines", "timers", "join_deadlines", "sync_deadlines", "_limits"}
IN_MEMORY |= {"topics_version", "is_assigning", "failed_assignment", "is_initializing", "configured", "shutdown_by"}
IN_MEMORY |= {"endpoint_epoch", "endpoints", "topic_filters", "regexes_version", "regexes_ms", "is_resolving"}
IN_MEMORY |= {"has_new_patterns", "targets"}


class Client:
    """A member as it sees itself; `owned`: what it reads; `says`: what it sends of itself."""

    def __init__(self, member_id: str, **says: Any) -> None:
        self.member_id = member_id
        self.says = says
        self.epoch = 0
        self.owned: Owned = {}
        self.wanted: Owned = {}
        self.answer: Promise[Any] | None = None

    def rejoin(self) -> None:
        self.epoch, self.owned, self.wanted = 0, {}, {}


class ModernGroups(RuleBasedStateMachine):
    """What members of each type do; a type adds its heartbeat and what only its members do."""

    type: ClassVar[GroupType]
    options: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.world = self.new_world()
        self.clients: list[Client] = []
        self.count = 0

    # --- of the type

    def new_world(self) -> World:
        return World(**self.options)

    @abstractmethod
    def heartbeat(self, client: Client, epoch: int, owned: dict[Any, frozenset[int]]) -> Promise[Any]:
        """Send a heartbeat."""

    def has_one_owner(self, key: Any) -> bool:
        """Whether only one member may own an index of `key`."""
        return True

    def check_group(self, group: AnyGroup) -> None:
        """Check what holds in this type only."""

    def check_end(self, group: AnyGroup) -> None:
        """Check what this type has reached in the end."""

    # --- what members do

    def add(self, **says: Any) -> None:
        self.count += 1
        self.clients.append(Client(f"m{self.count}", **says))
        self.beat(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def send(self, pick: int) -> None:
        self.beat(self.clients[pick % len(self.clients)])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def join_again(self, pick: int) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.answer is None and not client.says.get("instance_id"):
            client.rejoin()
            self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, is_away=st.booleans())
    def leave(self, pick: int, is_away: bool) -> None:
        client = self.clients.pop(pick % len(self.clients))
        client.owned = {}
        promise = self.heartbeat(client, -2 if is_away and client.says.get("instance_id") else -1, {})
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
        client.owned = {key: indexes & client.wanted.get(key, set()) for key, indexes in client.owned.items()}
        if client.epoch == 0:
            client.rejoin()
        owned = {key: frozenset(indexes) for key, indexes in client.owned.items() if indexes}
        client.answer = self.heartbeat(client, client.epoch, owned)
        self.read_answers()

    @invariant()
    def read_answers(self) -> None:
        for client in self.clients:
            if client.answer is None or not client.answer.done:
                continue
            promise, client.answer = client.answer, None
            if isinstance(promise.error, FENCED):
                client.rejoin()
            elif promise.error is None:
                result = promise.result()
                client.epoch = result.member_epoch
                if result.assigned is not None:
                    client.wanted = {key: set(indexes) for key, indexes in result.assigned.items()}
                    for key, indexes in client.wanted.items():
                        client.owned[key] = client.owned.get(key, set()) | indexes
            else:
                assert not isinstance(promise.error, InvalidRequest), promise.error

    # --- what happens to them

    @rule(ms=st.sampled_from([0, 50, 100, 1000, 5000, 20_000, 45_000]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)
        if ms >= 20_000:  # whoever was removed meanwhile has noticed that it can't reach the broker
            for client in self.clients:
                if self.group is None or client.member_id not in self.group.members:
                    client.rejoin()

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
    def restart(self) -> None:
        """Power is cut: what was not committed is lost, and so are all answers that were due."""
        configs = self.world.settings
        self.world = self.world.restarted(**self.options)
        self.world.settings.update(configs)
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
    def group(self) -> AnyGroup | None:
        group = self.world.groups._groups.get("g")
        assert group is None or isinstance(group, ModernGroup)
        return group

    @invariant()
    def an_index_has_one_reader(self) -> None:
        """A member that can't know yet that it was removed may still read: only live ones count."""
        group = self.group
        readers: dict[tuple[Any, int], str] = {}
        for client in self.clients:
            if group is None or client.member_id not in group.members or client.epoch == 0:
                continue
            for key, indexes in client.owned.items():
                for index in indexes if self.has_one_owner(key) else ():
                    other = readers.setdefault((key, index), client.member_id)
                    assert other == client.member_id, f"{key!r} {index} is read by {other} and {client.member_id}"

    @invariant()
    def an_index_has_one_owner(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[Any, int], str] = {}
        for member_id, member in group.members.items():
            for owned in (member.current.assigned, member.current.revoking):
                for key, indexes in owned.items():
                    for index in indexes if self.has_one_owner(key) else ():
                        assert owners.setdefault((key, index), member_id) == member_id
            assert member_id in group.sessions or self.world.log.held, "a silent member is removed"
            assert group.epoch >= group.target_epoch >= member.current.epoch
        self.check_group(group)

    def check_replay(self) -> None:
        """A replay gives what is in memory."""
        again = self.world.restarted().groups._groups.get("g")
        assert again is None or isinstance(again, ModernGroup)
        if not self.world.log.hold and not self.is_restored_later():
            assert described(again) == described(self.group)

    def is_restored_later(self) -> bool:
        """Whether a load appends by itself, so that a replay is ahead of the memory."""
        return False

    def teardown(self) -> None:
        self.flow()
        for _ in range(60):
            self.work()
            self.world.advance(1000)
        group = self.group
        if group is None:
            return
        assert set(group.members) == {client.member_id for client in self.clients}
        for client in self.clients:
            target = {key: set(indexes) for key, indexes in group.target_of(client.member_id).items()}
            assert {key: indexes for key, indexes in client.owned.items() if indexes} == target
        assert group.state.value == ("Stable" if self.clients else "Empty")
        self.check_end(group)


def described(group: AnyGroup | None) -> Any:
    """Everything of a group that its records say, and what follows from it."""
    if group is None:
        return None
    targets = {member_id: target for member_id, target in group.targets.items() if target}
    shown = {name: value for name, value in vars(group).items() if name not in IN_MEMORY}
    return shown, targets, group.state


class ConsumerGroups(ModernGroups):
    type = GroupType.CONSUMER
    options: ClassVar[dict[str, Any]] = {"group_consumer_assignment_interval_ms": 100}

    @rule(instance_id=INSTANCES, topics=TOPICS)
    def come(self, instance_id: str | None, topics: list[str]) -> None:
        if instance_id is None or all(one.says["instance_id"] != instance_id for one in self.clients):
            self.add(instance_id=instance_id, topics=topics)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, topics=TOPICS)
    def change(self, pick: int, topics: list[str]) -> None:
        client = self.clients[pick % len(self.clients)]
        client.says["topics"] = topics
        self.beat(client)

    @rule(count=st.integers(4, 7))
    def add_partitions(self, count: int) -> None:
        topic = self.world.topics.find("t")
        assert topic is not None
        if count > topic.partition_count:
            self.world.topics.put("t", count)

    def heartbeat(self, client: Client, epoch: int, owned: dict[Any, frozenset[int]]) -> Promise[Any]:
        if epoch < 0:
            return self.world.beat_consumer(client.member_id, epoch, instance_id=client.says["instance_id"])
        return self.world.beat_consumer(
            client.member_id, epoch, owned=owned, rebalance_timeout_ms=20_000, **client.says
        )

    def check_group(self, group: AnyGroup) -> None:
        assert isinstance(group, ConsumerGroup)
        for member_id, member in group.members.items():
            for owned in (member.current.assigned, member.current.revoking):
                assert all(group.owner(topic, index) == member_id for topic in owned for index in owned[topic])

    def check_end(self, group: AnyGroup) -> None:
        assert isinstance(group, ConsumerGroup)
        for name in group.subscribed_topics():
            topic = self.world.topics.find(name)
            assert topic is not None
            assert all(group.owner(topic.id, index) is not None for index in range(topic.partition_count))


class ShareGroups(ModernGroups):
    type = GroupType.SHARE
    options: ClassVar[dict[str, Any]] = {"group_share_assignment_interval_ms": 100}

    @rule(topics=SOME_TOPICS)
    def come(self, topics: list[str]) -> None:
        self.add(topics=topics)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, topics=SOME_TOPICS)
    def change(self, pick: int, topics: list[str]) -> None:
        client = self.clients[pick % len(self.clients)]
        client.says["topics"] = topics
        self.beat(client)

    def heartbeat(self, client: Client, epoch: int, owned: dict[Any, frozenset[int]]) -> Promise[Any]:
        topics = None if epoch < 0 else client.says["topics"]
        return self.world.groups.share.heartbeat(ShareHeartbeat("g", client.member_id, epoch, topics=topics))

    def has_one_owner(self, key: Any) -> bool:
        return False

    def is_restored_later(self) -> bool:
        group = self.world.groups.share.find("g")
        return group is not None and bool(group.state_partitions.initializing)

    def check_end(self, group: AnyGroup) -> None:
        read = {(topic, index) for client in self.clients for topic, all in client.owned.items() for index in all}
        for name in {name for client in self.clients for name in client.says["topics"]}:
            topic = self.world.topics.find(name)
            assert topic is not None
            assert all((topic.id, index) in read for index in range(topic.partition_count))


class StreamsGroups(ModernGroups):
    type = GroupType.STREAMS
    options: ClassVar[dict[str, Any]] = {
        "group_streams_assignment_interval_ms": 100,
        "group_streams_initial_rebalance_delay_ms": 200,
    }

    def new_world(self) -> World:
        return new_world(COUNT, **self.options)

    @rule(process_id=st.sampled_from("pqr"))
    def come(self, process_id: str) -> None:
        self.add(process_id=process_id)

    @rule(replicas=st.integers(0, 2))
    def configure(self, replicas: int) -> None:
        self.world.settings["g"] = {"streams.num.standby.replicas": replicas}

    @rule(is_there=st.booleans())
    def change_topics(self, is_there: bool) -> None:
        if is_there:
            make_topics(self.world, COUNT)
        elif self.world.topics.find("app-words") is not None:
            self.world.topics.delete("app-words")

    def heartbeat(self, client: Client, epoch: int, owned: dict[Any, frozenset[int]]) -> Promise[Any]:
        if epoch < 0:
            return start(self.world, client.member_id, epoch)
        roles: dict[TaskRole, dict[str, set[int]]] = {role: {} for role in TaskRole}
        for key, tasks in owned.items():
            roles[key.role][key.subtopology] = set(tasks)
        return start(
            self.world,
            client.member_id,
            epoch,
            topology=COUNT,
            active=roles[TaskRole.ACTIVE],
            standby=roles[TaskRole.STANDBY],
            rebalance_timeout_ms=20_000,
            **client.says,
        )

    def has_one_owner(self, key: Any) -> bool:
        return bool(key.role is TaskRole.ACTIVE)

    def check_group(self, group: AnyGroup) -> None:
        """A process has a task once, in whatever role."""
        assert isinstance(group, StreamsGroup)
        held: dict[tuple[str, int, str], str] = {}
        for member_id, member in group.members.items():
            for owned in (member.current.assigned, member.current.revoking):
                for key, tasks in owned.items():
                    for task in tasks:
                        assert member_id in group.holders(key, task)
                        place = key.subtopology, task, member.metadata.process_id
                        assert held.setdefault(place, member_id) == member_id

    def teardown(self) -> None:
        make_topics(self.world, COUNT)
        super().teardown()

    def check_end(self, group: AnyGroup) -> None:
        assert isinstance(group, StreamsGroup)
        for one in COUNT.subtopologies if self.clients else ():
            key = SubtopologyRole(TaskRole.ACTIVE, one.id)
            assert all(len(group.holders(key, task)) == 1 for task in range(4))


for machine in (ConsumerGroups, ShareGroups, StreamsGroups):
    machine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestConsumerGroups = ConsumerGroups.TestCase
TestShareGroups = ShareGroups.TestCase
TestStreamsGroups = StreamsGroups.TestCase
