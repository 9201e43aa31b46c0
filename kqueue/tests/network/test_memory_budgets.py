from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.network.memory_budgets import RequestBudget, ResponseBudget, machine_bytes, within_memory
from kqueue.tests.network.harness import LIMITS, MiB, network_harness, until
from kqueue.tests.network.test_session import run
from kqueue.tests.network.test_session_limits import big_responses


class Waits:
    def __init__(self) -> None:
        self.calls = 0

    def resume(self) -> None:
        self.calls += 1


def test_connection_may_queue_a_share_of_free_memory() -> None:
    later: list[Callable[[], None]] = []
    budget = ResponseBudget(1000, later.append)
    queued_bytes = [0] * 40
    while not all(budget.denies(each) for each in queued_bytes):
        for number, each in enumerate(queued_bytes):
            if not budget.denies(each):
                queued_bytes[number] += 1
                budget.change(1)
    assert budget.is_short
    assert budget.limit - budget.used > 50, "forty that take nothing leave room for others"
    assert not budget.denies(0)

    budget.change(budget.limit - budget.used)
    assert budget.denies(0)
    who = Waits()
    budget.wait(who)
    budget.change(10)
    budget.change(-5)
    assert later == [], "the limit is still passed"
    budget.change(-6)
    budget.change(-1)
    assert len(later) == 1
    later[0]()
    assert who.calls == 1
    budget.remove_waiter(who)


def test_defaults_are_lowered_to_machine_or_container_memory(tmp_path: Path) -> None:
    of_machine = machine_bytes(tmp_path / "none")
    if of_machine is None:
        pytest.skip("the system does not say how much memory there is")
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert machine_bytes(limit) == of_machine
    limit.write_text(f"{64 * MiB}\n")
    assert machine_bytes(limit) == 64 * MiB
    assert within_memory(256 * MiB, 512 * MiB) == 64 * MiB
    assert within_memory(256 * MiB, 24 << 30) == 256 * MiB
    assert within_memory(256 * MiB, None) == 256 * MiB


def test_denied_connection_resumes_when_memory_is_free() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(response_bytes_of_all=MiB)) as harness:
            started = big_responses(harness, 2 * MiB)
            hog, session = await harness.connect(receive_bytes=4096, send_bytes=4096)
            hog.writer.transport.pause_reading()  # type: ignore[attr-defined]
            hog.send("DescribeGroups", 0, groups=["x"])
            await until(lambda: harness.connections.response_budget.denies(0))
            others = [(await harness.connect())[0] for _ in range(3)]
            for other in others:
                other.send("DescribeGroups", 0, groups=["x"])
            await asyncio.sleep(0.01)
            assert len(started) == 1
            await harness.pass_second()  # a sweep admits them again
            assert len(started) == 1
            session.close()
            for other in others:
                await other.receive("DescribeGroups", 0)

    run(test)


class StubConnection:
    def __init__(self) -> None:
        self.holds = 0
        self.paused = False

    def resume(self) -> None:
        assert self.paused, "only who waits is woken"
        self.paused = False


class BudgetMachine(RuleBasedStateMachine):
    """Connections that read large requests in pieces; never are all of them paused."""

    @initialize(limit=st.one_of(st.none(), st.integers(1, 100)))
    def begin(self, limit: int | None) -> None:
        self.limit = limit
        self.budget = RequestBudget(limit)
        self.all = [StubConnection() for _ in range(4)]

    @rule(who=st.integers(0, 3), count=st.integers(1, 60))
    def read(self, who: int, count: int) -> None:
        someone = self.all[who]
        if someone.paused:
            return
        if self.budget.may_read(someone):
            someone.holds += count
            self.budget.take(count)
        else:
            someone.paused = True

    @rule(who=st.integers(0, 3))
    @precondition(lambda self: any(someone.holds for someone in self.all))
    def finish_or_leave(self, who: int) -> None:
        someone = self.all[who]
        count, someone.holds = someone.holds, 0
        was_paused, someone.paused = someone.paused, False
        self.budget.release_request(someone, count)
        assert not (was_paused and someone.paused)

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "budget"):
            assert self.budget.used == sum(someone.holds for someone in self.all)
            assert self.budget.has_waiters == any(someone.paused for someone in self.all)

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        if hasattr(self, "budget"):
            assert not all(someone.paused for someone in self.all)
            if self.limit is None or self.budget.used <= self.limit:
                assert not any(someone.paused for someone in self.all) or self.budget._admitted is not None


TestBudget = BudgetMachine.TestCase
