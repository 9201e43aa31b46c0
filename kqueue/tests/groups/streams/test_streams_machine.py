"""Members of a streams group do anything in any order, while time passes, the log stalls or fails,
and the broker dies. What must hold: an active task has one owner, also in the members' own eyes; a
process has a task once; a replay of the log gives what is in memory; in the end all members have
their target.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import InvalidRequest, StorageFailed, UnknownMember
from kqueue.base.promise import Promise
from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import StreamsHeartbeatResult, SubtopologyRole, TaskRole
from kqueue.tests.groups.streams.applications import COUNT, make_topics, new_world, start
from kqueue.tests.groups.support import leave_and_return

PICK = st.integers(0, 100)
SETTINGS = {"group_streams_assignment_interval_ms": 100, "group_streams_initial_rebalance_delay_ms": 200}
Tasks = dict[SubtopologyRole, set[int]]


class Client:
    """A member as it sees itself; `owned` is what it runs."""

    def __init__(self, member_id: str, process_id: str) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.epoch = 0
        self.owned: Tasks = {}
        self.wanted: Tasks = {}
        self.answer: Promise[StreamsHeartbeatResult] | None = None

    def rejoin(self) -> None:
        self.epoch, self.owned, self.wanted = 0, {}, {}


class StreamsGroups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = new_world(COUNT, **SETTINGS)
        self.clients: list[Client] = []
        self.count = 0

    # --- what members do

    @rule(process_id=st.sampled_from("pqr"))
    def come(self, process_id: str) -> None:
        self.count += 1
        self.clients.append(Client(f"m{self.count}", process_id))
        self.beat(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def send(self, pick: int) -> None:
        self.beat(self.clients[pick % len(self.clients)])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def leave(self, pick: int) -> None:
        client = self.clients.pop(pick % len(self.clients))
        start(self.world, client.member_id, -1)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def die(self, pick: int) -> None:
        """It stops, and says nothing."""
        self.clients.pop(pick % len(self.clients))

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def join_again(self, pick: int) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.answer is None:
            client.rejoin()
            self.beat(client)

    @rule()
    def work(self) -> None:
        self.read_answers()
        for client in list(self.clients):
            self.beat(client)

    def beat(self, client: Client) -> None:
        """Send a heartbeat, unless one is under way. A member revokes before it says so."""
        if client.answer is not None:
            return
        client.owned = {key: tasks & client.wanted.get(key, set()) for key, tasks in client.owned.items()}
        roles: dict[TaskRole, dict[str, set[int]]] = {role: {} for role in TaskRole}
        for key, tasks in client.owned.items():
            if tasks:
                roles[key.role][key.subtopology] = set(tasks)
        active, standby, _ = roles.values()
        client.answer = start(
            self.world,
            client.member_id,
            client.epoch,
            topology=COUNT,
            active=active,
            standby=standby,
            process_id=client.process_id,
            rebalance_timeout_ms=20_000,
        )
        self.read_answers()

    @invariant()
    def read_answers(self) -> None:
        for client in self.clients:
            if client.answer is None or not client.answer.done:
                continue
            promise, client.answer = client.answer, None
            if isinstance(promise.error, (FencedMemberEpoch, UnknownMember)):
                client.rejoin()
            elif promise.error is None:
                result = promise.result()
                client.epoch = result.member_epoch
                if result.assigned is not None:
                    client.wanted = {key: set(tasks) for key, tasks in result.assigned.items()}
                    for key, tasks in client.wanted.items():
                        client.owned[key] = client.owned.get(key, set()) | tasks
            else:
                assert not isinstance(promise.error, InvalidRequest), promise.error

    # --- what happens to them

    @rule(ms=st.sampled_from([0, 50, 100, 1000, 5000, 20_000, 45_000]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)
        if ms >= 20_000:  # whoever was removed meanwhile has noticed that it can't reach the broker
            for client in self.clients:
                group = self.group
                if group is None or client.member_id not in group.members:
                    client.rejoin()

    @rule(replicas=st.integers(0, 2))
    def configure(self, replicas: int) -> None:
        self.world.settings["g"] = {"streams.num.standby.replicas": replicas}

    @rule(is_there=st.booleans())
    def change_topics(self, is_there: bool) -> None:
        if is_there:
            make_topics(self.world, COUNT)
        elif self.world.topics.find("app-words") is not None:
            self.world.topics.delete("app-words")

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
        names = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        self.world = self.world.restarted(**names)
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
    def group(self) -> StreamsGroup | None:
        return self.world.groups.streams.find("g")

    @invariant()
    def an_active_task_runs_once(self) -> None:
        """A member that can't know yet that it was removed may still run: only live ones count."""
        group = self.group
        runners: dict[tuple[str, int], str] = {}
        for client in self.clients:
            if group is None or client.member_id not in group.members or client.epoch == 0:
                continue
            for key, tasks in client.owned.items():
                for task in tasks if key.role is TaskRole.ACTIVE else ():
                    other = runners.setdefault((key.subtopology, task), client.member_id)
                    assert other == client.member_id, f"{key} {task} runs at {other} and {client.member_id}"

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[str, int], str] = {}
        held: dict[tuple[str, int, str], str] = {}
        for member_id, member in group.members.items():
            for owned in (member.current.assigned, member.current.revoking):
                for key, tasks in owned.items():
                    for task in tasks:
                        assert member_id in group.holders(key, task)
                        if key.role is TaskRole.ACTIVE:
                            assert owners.setdefault((key.subtopology, task), member_id) == member_id
                        place = key.subtopology, task, member.metadata.process_id
                        assert held.setdefault(place, member_id) == member_id
            assert member_id in group.sessions or self.world.log.held, "a silent member is removed"
            assert group.epoch >= group.target_epoch >= member.current.epoch

    def check_replay(self) -> None:
        """A replay gives what is in memory."""
        again = self.world.restarted()
        assert described(again.groups.streams.find("g")) == described(self.group)

    def teardown(self) -> None:
        self.flow()
        make_topics(self.world, COUNT)
        for _ in range(60):
            self.work()
            self.world.advance(1000)
        group = self.group
        if group is None:
            return
        assert set(group.members) == {client.member_id for client in self.clients}
        for client in self.clients:
            target = {key: set(tasks) for key, tasks in group.target_of(client.member_id).items()}
            assert {key: tasks for key, tasks in client.owned.items() if tasks} == target
        assert group.state.value == ("Stable" if self.clients else "Empty")
        for one in COUNT.subtopologies if self.clients else ():
            key = SubtopologyRole(TaskRole.ACTIVE, one.id)
            assert all(len(group.holders(key, task)) == 1 for task in range(4))


def described(group: StreamsGroup | None) -> Any:
    """Everything of a group that its records say."""
    if group is None:
        return None
    targets = {member_id: target for member_id, target in group.targets.items() if target}
    return (
        group.group_epoch,
        group.target,
        group.topology,
        group.members,
        targets,
        group.state,
        group.member_bytes,
        group._holders,
    )


StreamsGroups.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStreamsGroups = StreamsGroups.TestCase
