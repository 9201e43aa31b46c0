"""Delivery counts of whole requests: a record is counted once for each answer that names it.

Members wait for records, go on with another connection, lose one, leave, and let locks end, in any
order. `test_share_partition_machine` does the same beneath the requests, with failing writes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, RELEASE, Member, acquired, earliest, fill
from kqueue.tests.thorough import examples

LOCK_MS = 15_000
LIMIT = 10
NAMES = ("m1", "m2")
MEMBERS = st.sampled_from(NAMES)


class DeliveryMachine(RuleBasedStateMachine):
    """Two members of one group, each with any number of connections."""

    @initialize()
    def begin(self) -> None:
        self.client = SimulatedClient()
        self.client.sim.topic("t")
        earliest(self.client, share_record_lock_duration_ms=str(LOCK_MS), share_delivery_count_limit=str(LIMIT))
        self.members = {name: Member(self.client, name) for name in NAMES}
        self.waiting: list[tuple[str, object, PendingRequest]] = []  # by member and connection
        self.sessions: dict[str, object] = {}  # connection of each member's last session
        self.old: list[object] = []  # connections that a member has left open
        self.deliveries: Counter[int] = Counter()
        self.done: set[int] = set()
        self.held: dict[str, list[int]] = {name: [] for name in NAMES}

    def settle(self, ms: float = 0) -> None:
        self.client.sim.settle()
        self.client.sim.advance(ms)
        left = []
        for name, connection, pending in self.waiting:
            if pending.response is None:
                left.append((name, connection, pending))
            elif pending.response.error_code == 0:
                self.delivered(name, connection, pending.response)
        self.waiting = left

    def delivered(self, name: str, connection: object, response: Any) -> None:
        for first, last, count in acquired(response):
            assert self.sessions.get(name) is connection, "records for a session that has ended"
            for offset in range(first, last + 1):
                self.deliveries[offset] += 1
                assert count == self.deliveries[offset], f"record {offset} is counted {count} times"
                assert offset not in self.done, f"record {offset} was accepted"
                if connection is self.members[name].connection:
                    self.held[name].append(offset)

    def is_busy(self, name: str) -> bool:
        """Whether a request of its connection is under way: the next would wait for it."""
        return any(each is self.members[name].connection for _, each, _ in self.waiting)

    @rule(count=st.integers(1, 3))
    def produce(self, count: int) -> None:
        fill(self.client, count)
        self.settle()

    @rule(name=MEMBERS, most=st.integers(1, 4), waits=st.booleans())
    def fetch(self, name: str, most: int, waits: bool) -> None:
        if self.is_busy(name):
            return
        member = self.members[name]
        wait_ms = 40_000 if waits else 0
        if not member.epoch:
            self.sessions[name] = member.connection
        self.waiting.append((name, member.connection, member.start(max_wait_ms=wait_ms, max_records=most)))
        self.settle()

    @rule(name=MEMBERS, type=st.sampled_from([ACCEPT, RELEASE]))
    def acknowledge(self, name: str, type: int) -> None:
        member = self.members[name]
        if self.is_busy(name) or not self.held[name] or not member.epoch:
            return
        self.settle()
        offset = self.held[name].pop(0)
        answer = member.acknowledge((offset, offset, type))
        if answer.error_code:
            member.epoch = 0
        elif type == ACCEPT and not answer.responses[0].partitions[0].error_code:
            self.done.add(offset)
        self.settle()

    @rule(name=MEMBERS)
    def reconnect(self, name: str) -> None:
        """Begin another session on another connection; the broker has not seen the old one end."""
        member = self.members[name]
        self.old.append(member.connection)
        member.connection, member.epoch = object(), 0

    @rule(name=MEMBERS)
    def leave(self, name: str) -> None:
        member = self.members[name]
        if not self.is_busy(name):
            self.sessions.pop(name, None)
            member.fetch(epoch=-1)
            member.epoch = 0
            self.held[name].clear()
            self.settle()

    @rule(name=MEMBERS, is_old=st.booleans())
    def disconnect(self, name: str, is_old: bool) -> None:
        member = self.members[name]
        connection = self.old.pop(0) if is_old and self.old else member.connection
        for _, each, pending in self.waiting:
            if each is connection:
                pending.cancel()
        self.waiting = [entry for entry in self.waiting if entry[1] is not connection]
        self.client.sim.broker.share.connection_closed(connection)
        if connection is member.connection:
            member.connection, member.epoch = object(), 0
            self.held[name].clear()
        self.settle()

    @rule(ms=st.sampled_from([10.0, 5000.0, 15_000.0]))
    def wait(self, ms: float) -> None:
        self.settle(ms)


DeliveryMachine.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDeliveries = DeliveryMachine.TestCase
