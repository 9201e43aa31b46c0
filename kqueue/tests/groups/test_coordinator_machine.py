"""Simulated members do anything in any order, while time passes, the log stalls or fails, and the
broker dies; what must hold always holds.

Assignments carry who they were made for, so that one that reaches somebody else is seen.
"""

from __future__ import annotations

import contextlib
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import MemberIdRequired, RebalanceInProgress, RequestRefused, StorageFailed
from kqueue.base.promise import Promise
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import JoinResult, LeavingMember
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.groups.support import RANGE, World, leave_and_return
from kqueue.tests.thorough import examples

GROUPS = st.sampled_from(["g", "g", "g", "h"])
INSTANCES = st.sampled_from([None, None, "i", "j"])
PROTOCOLS = st.sampled_from([RANGE, {**RANGE, "rr": b"2"}, {"rr": b"2", **RANGE}, {"rr": b"2"}])
PICK = st.integers(0, 1000)
LONG_MS = 3 * 3_600_000


class Client:
    """A member as it sees itself."""

    def __init__(self, group_id: str, instance_id: str | None) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.joined: JoinResult | None = None
        self.join: Promise[JoinResult] | None = None
        self.sync: Promise[Any] | None = None
        self.synced_as: JoinResult | None = None
        self.joined_before: JoinResult | None = (
            None  # of this broker's life: a generation without assignment dies with it
        )
        self.waits = False


class Coordination(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: list[Client] = []
        self.commits: list[tuple[Promise[Any], str, int, int]] = []
        self.deletions: list[tuple[Promise[Any], str]] = []
        self.waited: list[Promise[Any]] = []
        self.durable: dict[tuple[str, int], int] = {}
        self.generations: dict[int, tuple[ClassicGroup, int]] = {}
        self.number = 0

    @initialize(
        delay_ms=st.sampled_from([0, 3000]),
        members_max=st.sampled_from([2, 1000]),
        instances=st.lists(INSTANCES, max_size=4),
    )
    def start(self, delay_ms: int, members_max: int, instances: list[str | None]) -> None:
        self.options = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": members_max}
        self.world = World(**self.options)
        for instance_id in instances:
            self.come("g", instance_id, RANGE, id_required=True, can_skip=True)
        self.behave(3000, flows=True)

    # --- what members do

    @rule(
        group_id=GROUPS, instance_id=INSTANCES, protocols=PROTOCOLS, id_required=st.booleans(), can_skip=st.booleans()
    )
    def come(
        self, group_id: str, instance_id: str | None, protocols: dict[str, bytes], id_required: bool, can_skip: bool
    ) -> None:
        client = Client(group_id, instance_id)
        self.clients.append(client)
        self.ask_to_join(client, protocols, id_required=id_required, can_skip=can_skip)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, protocols=PROTOCOLS)
    def come_again(self, pick: int, protocols: dict[str, bytes]) -> None:
        self.ask_to_join(self.clients[pick % len(self.clients)], protocols)

    def ask_to_join(self, client: Client, protocols: dict[str, bytes], **options: bool) -> None:
        try:
            client.waits = False
            promise = self.world.join(
                client.group_id,
                client.member_id,
                instance_id=client.instance_id,
                protocols=protocols,
                rebalance_ms=20_000,
                **options,
            )
        except MemberIdRequired as refusal:
            client.member_id = refusal.member_id
        except RequestRefused:
            client.member_id, client.joined = "", None
        else:
            client.join, client.waits = promise, not promise.done
            self.waited.append(promise)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def ask_for_assignment(self, pick: int) -> None:
        client = self.clients[pick % len(self.clients)]
        joined = client.joined
        if joined is None:
            return
        operations = {
            member.member_id: f"{joined.generation} {member.member_id} {member.instance_id}".encode()
            for member in joined.members
            if member.member_id[-1] not in "012"  # some get nothing
        }
        try:
            promise = self.world.groups.sync(
                client.group_id, joined.generation, client.member_id, client.instance_id, operations
            )
        except RequestRefused:
            return
        client.sync, client.synced_as = promise, joined
        self.waited.append(promise)
        self.look(client)

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def beat(self, pick: int) -> None:
        client = self.clients[pick % len(self.clients)]
        if client.joined is not None:
            with contextlib.suppress(RequestRefused):
                self.world.groups.heartbeat(
                    client.group_id, client.joined.generation, client.member_id, client.instance_id
                )

    @precondition(lambda self: self.clients)
    @rule(pick=PICK, by_instance=st.booleans())
    def leave(self, pick: int, by_instance: bool) -> None:
        client = self.clients[pick % len(self.clients)]
        leaving = LeavingMember("" if by_instance else client.member_id, client.instance_id)
        with contextlib.suppress(RequestRefused):
            self.world.groups.leave(client.group_id, [leaving])

    @precondition(lambda self: self.clients)
    @rule(pick=PICK)
    def die(self, pick: int) -> None:
        del self.clients[pick % len(self.clients)]

    @rule(pick=PICK, partition=st.integers(0, 2), group_id=GROUPS)
    def commit(self, pick: int, partition: int, group_id: str) -> None:
        client = self.clients[pick % len(self.clients)] if self.clients else None
        self.number += 1
        commits = [OffsetToCommit("t", partition, self.number)]
        try:
            if client is not None and client.joined is not None:
                group_id = client.group_id
                promise = self.world.groups.commit(
                    group_id, client.joined.generation, client.member_id, client.instance_id, commits
                )
            else:
                promise = self.world.groups.commit(group_id, -1, "", None, commits)
        except RequestRefused:
            return
        self.commits.append((promise, group_id, partition, self.number))
        self.waited.append(promise)

    @rule(group_id=GROUPS)
    def delete(self, group_id: str) -> None:
        try:
            promise = self.world.groups.delete(group_id)
        except RequestRefused:
            return
        self.deletions.append((promise, group_id))
        self.waited.append(promise)

    @rule(ms=st.sampled_from([0, 3000]), flows=st.sampled_from([True, True, False]))
    def behave(self, ms: int, flows: bool) -> None:
        """Everybody does what a good client does, until nobody has anything more to do."""
        if flows:
            self.flow()
        for _ in range(3):
            for client in self.clients:
                if client.join is None and client.sync is None and not self.is_content(client):
                    self.ask_to_join(client, {**RANGE, "rr": b"2"})
            self.world.advance(ms)
            self.answers_are_read()
            for number in range(len(self.clients)):
                self.ask_for_assignment(number)

    def is_content(self, client: Client) -> bool:
        if client.joined is None:
            return False
        try:
            self.world.groups.heartbeat(client.group_id, client.joined.generation, client.member_id, client.instance_id)
        except RequestRefused as refusal:
            if not isinstance(refusal, RebalanceInProgress):
                client.member_id, client.joined = "", None
            return False
        return True

    @rule(steps=st.integers(1, 8))
    def live(self, steps: int) -> None:
        """Time passes while everybody is alive but does nothing else."""
        for _ in range(steps):
            self.world.advance(5_000)
            self.answers_are_read()
            for number in range(len(self.clients)):
                self.beat(number)

    @rule()
    def delete_topic(self) -> None:
        """The offsets go as the tombstones are written; those of commits that stand before them
        too.
        """
        if not self.world.log.held:
            self.world.log.hold = False
            self.world.groups.delete_topic("t")
            self.durable.clear()

    # --- what happens to them

    @rule(ms=st.sampled_from([0, 1, 1000, 3000, 9_000, 10_000, 20_000, 300_000]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule()
    def stall(self) -> None:
        self.world.log.hold = True

    @precondition(lambda self: self.world.log.held)
    @rule(count=st.integers(1, 3))
    def commit_some(self, count: int) -> None:
        for _ in range(min(count, len(self.world.log.held))):
            self.world.log.release(1)
            self.note_durable()

    @rule()
    def flow(self) -> None:
        self.world.log.hold = False
        while self.world.log.held:
            self.world.log.release(1)
            self.note_durable()
        self.check_replay()

    @precondition(lambda self: self.world.log.held)
    @rule()
    def break_log(self) -> None:
        self.world.log.fail(StorageFailed("the disk is gone"))

    @rule()
    def restart(self) -> None:
        """The broker dies: what was not committed is lost, and so are all answers that were due."""
        self.note_durable()
        written = {group_id: group.generation for group_id, group in self.groups.items() if not self.world.log.held}
        self.world = self.world.restarted(**self.options)
        for group_id, group in self.groups.items():
            assert group.state in (
                ClassicGroupState.EMPTY,
                ClassicGroupState.STABLE,
                ClassicGroupState.PREPARING_REBALANCE,
            )
            assert group.generation <= written.get(group_id, group.generation)
        self.generations.clear()
        self.waited.clear()
        self.commits.clear()
        self.deletions.clear()
        for client in self.clients:
            client.join = client.sync = client.joined_before = None

    @rule()
    def move(self) -> None:
        """Another broker leads the log for a while: who waits is answered."""
        self.note_durable()
        leave_and_return(self.world)
        assert all(promise.done for promise in self.waited)
        self.generations.clear()
        self.commits.clear()
        self.deletions.clear()
        for client in self.clients:
            client.joined_before = None
        self.answers_are_read()

    # --- what must hold

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        return self.world.classic_groups()

    def note_durable(self) -> None:
        """Take into the model what has been answered since, in the order of the log."""
        settled = [(promise, group_id, change) for promise, group_id, *change in self.commits if promise.done]
        settled += [(promise, group_id, []) for promise, group_id in self.deletions if promise.done]
        for promise, group_id, change in sorted(settled, key=lambda one: self.world.woken.index(one[0])):
            if promise.error is not None:
                continue
            if change:
                partition, number = change
                self.durable[group_id, partition] = number
            else:
                self.durable = {key: number for key, number in self.durable.items() if key[0] != group_id}
        self.commits = [one for one in self.commits if not one[0].done]
        self.deletions = [one for one in self.deletions if not one[0].done]

    def check_replay(self) -> None:
        """What is in memory is what a restart would find, as far as anybody was told of it."""
        world = self.world.restarted()
        reborn, reborn_groups = world.groups, world.classic_groups()
        assert reborn_groups.keys() <= self.groups.keys()
        for group_id, group in self.groups.items():
            if group_id not in reborn_groups:  # it had nothing but offsets, and they are gone
                assert group.state is not ClassicGroupState.STABLE
                assert not self.world.groups.offsets(group_id)
                continue
            assert reborn.offsets(group_id) == self.world.groups.offsets(group_id)
            if group.state is ClassicGroupState.STABLE and group.waiting_to_join_count == 0:
                assert reborn_groups[group_id].generation == group.generation
                assert set(reborn.describe(group_id).members) == set(self.world.groups.describe(group_id).members)

    def look(self, client: Client) -> None:
        """A member reads the answers that have come."""
        if client.join is not None and client.join.done:
            if client.join.error is None:
                self.check_generation(client, client.join.result())
                client.joined = client.join.result()
                client.member_id = client.joined.member_id
            else:
                client.joined = None
            client.join = None
        if client.sync is not None and client.sync.done:
            if client.sync.error is None:
                self.check_assignment(client, client.sync.result().assignment)
            client.sync = None

    def check_generation(self, client: Client, joined: JoinResult) -> None:
        """All members of a generation are told of the same one; who waited for a new one gets a new
        one.
        """
        group = self.groups.get(client.group_id)
        if (
            group is not None
            and group.generation == joined.generation
            and group.state is ClassicGroupState.COMPLETING_REBALANCE
        ):
            assert joined.protocol_name == group.protocol_name
            assert joined.leader == group.leader_id
            assert bool(joined.members) is (joined.leader == joined.member_id)
            assert {member.member_id for member in joined.members} in (set(), set(group.members))
        before = client.joined_before
        client.joined_before = joined
        if before is not None and before.member_id == joined.member_id:
            assert joined.generation > before.generation or (
                joined.generation == before.generation and not client.waits
            )

    def check_assignment(self, client: Client, assignment: bytes) -> None:
        assert client.synced_as is not None
        if assignment:
            generation, member_id, instance_id = assignment.decode().split(" ")
            assert int(generation) == client.synced_as.generation, "an assignment of another generation"
            assert member_id == client.synced_as.member_id or (
                client.instance_id is not None and instance_id == client.instance_id
            )

    @invariant()
    def answers_are_read(self) -> None:
        for client in self.clients:
            self.look(client)

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        holders = {
            id(promise)
            for group in self.groups.values()
            for member in group.members.values()
            for promise in (member.join_promise, member.sync_promise)
        }
        writing = {id(promise) for promise, *_ in (*self.commits, *self.deletions)} if self.world.log.held else set()
        woken = {id(promise) for promise in self.world.woken}
        for promise in self.waited:
            assert id(promise) in (woken if promise.done else holders | writing)
        self.waited = [promise for promise in self.waited if not promise.done]

    @invariant()
    def groups_are_sound(self) -> None:
        for group in self.groups.values():
            self.check_members(group)
            self.check_state(group)
            self.check_clocks(group)

    def check_members(self, group: ClassicGroup) -> None:
        members = group.members
        assert (group.leader_id in members) is bool(members), "exactly one leader, if there are members"
        assert all(member.member_id == member_id for member_id, member in members.items())
        assert group.static_ids == {
            member.instance_id: member_id for member_id, member in members.items() if member.is_static
        }
        assert group.waiting_to_join_count == sum(member.join_promise is not None for member in members.values())
        assert group.unsynced <= set(members)
        assert not group.pending.keys() & members.keys()
        dynamic = sum(not member.is_static for member in members.values())  # static ones that are away keep their place
        assert dynamic <= self.options["group_max_size"] or group.state is ClassicGroupState.PREPARING_REBALANCE

    def check_state(self, group: ClassicGroup) -> None:
        members = group.members.values()
        state = group.state
        assert (
            bool(members) is (state not in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD))
            or state is ClassicGroupState.PREPARING_REBALANCE
        )
        assert state is ClassicGroupState.COMPLETING_REBALANCE or not any(member.sync_promise for member in members)
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            assert group.waiting_to_join_count == 0
        if state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            assert group.protocol_name is not None
            assert all(group.protocol_name in member.protocols for member in members)
            assert all(member.join_promise is None or member.is_static for member in members)
        if state is ClassicGroupState.STABLE:
            for member in members:
                if member.assignment:
                    generation, member_id, instance_id = member.assignment.decode().split(" ")
                    assert int(generation) == group.generation
                    assert member_id == member.member_id or instance_id == member.instance_id
        known = self.generations.get(id(group))
        assert known is None or known[1] <= group.generation, "generations only grow"
        self.generations[id(group)] = (group, group.generation)

    def check_clocks(self, group: ClassicGroup) -> None:
        """Whoever may fall silent is watched; whatever may never end has an end."""
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            assert group.join_deadline.due_ms is not None
        else:
            assert group.join_deadline.due_ms is None
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            assert (group.sync_deadline.due_ms is not None) is bool(group.unsynced)
        for member in group.members.values():
            assert member.session.due_ms is not None or member.is_excused

    @invariant()
    def offsets_are_those_confirmed(self) -> None:
        self.note_durable()
        offsets = {
            (group_id, partition): one.offset
            for group_id in ("g", "h")
            for partition, one in self.world.groups.offsets(group_id).get("t", {}).items()
        }
        assert offsets == self.durable

    def teardown(self) -> None:
        self.flow()
        self.world.advance(LONG_MS)
        self.nobody_waits_in_vain()
        assert not self.waited, "every waiter is answered in the end"
        assert all(group.state is ClassicGroupState.EMPTY for group in self.groups.values()), (
            "members that say nothing are gone in the end"
        )
        assert all(member.group_id for member in self.clients)


Coordination.TestCase.settings = settings(
    max_examples=examples(80), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestCoordination = Coordination.TestCase
