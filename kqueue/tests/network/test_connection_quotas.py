from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.network.connection_quotas import (
    ClientLog,
    ConnectionQuotas,
    RateLimiter,
    RequestBudget,
    connections_max_within,
)
from kqueue.testing.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("wanted", "files", "allowed"),
    [(10_000, None, 10_000), (10_000, 1024, 768), (100, 1024, 100), (10_000, 128, 64), (10, 20, 1)],
)
def test_connections_leave_room_for_the_files_of_logs(wanted: int, files: int | None, allowed: int) -> None:
    assert connections_max_within(wanted, files) == allowed


def test_connections_are_limited_in_all_and_by_address() -> None:
    limits = ConnectionQuotas(4, 2, {"10.0.0.9": 3})
    assert limits.admit("10.0.0.1") is None
    assert limits.admit("10.0.0.1") is None
    assert "2 connections from its address" in (limits.admit("10.0.0.1") or "")
    assert limits.admit("10.0.0.9") is None
    assert limits.admit("10.0.0.9") is None
    assert "4 connections already" in (limits.admit("10.0.0.9") or "")
    limits.leave("10.0.0.1")
    assert limits.admit("10.0.0.9") is None
    assert limits.total == 4


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(0, 5), st.integers(0, 3))
def test_connection_counts_are_those_of_a_plain_list(
    steps: list[tuple[str, bool]], total_max: int, each_max: int
) -> None:
    limits = ConnectionQuotas(total_max, each_max, {})
    there: list[str] = []
    for address, comes in steps:
        if comes:
            fits = len(there) < total_max and there.count(address) < each_max
            assert (limits.admit(address) is None) == fits
            if fits:
                there.append(address)
        elif address in there:
            there.remove(address)
            limits.leave(address)
    assert limits.total == len(there)


def test_a_rate_allows_a_second_at_once_and_then_its_pace() -> None:
    clock = ManualClock()
    rate = RateLimiter(10, clock)
    for _ in range(10):
        assert rate.wait_ms() == 0
        rate.count()
    assert rate.wait_ms() == pytest.approx(100)
    clock.advance(60)
    assert rate.wait_ms() == pytest.approx(40)
    clock.advance(40)
    assert rate.wait_ms() == 0
    clock.advance(3_600_000)
    for _ in range(10):
        assert rate.wait_ms() == 0
        rate.count()
    assert rate.wait_ms() > 0


def test_lines_of_one_noisy_client_are_left_out_and_counted_and_others_still_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    client_log = ClientLog(logging.getLogger("kqueue.server"), clock, per_second=1, burst=3)
    for number in range(10):
        client_log.say(logging.WARNING, f"10.0.0.1:{number}", "noise %d", number)
    client_log.say(logging.WARNING, "10.0.0.2:1", "quiet")
    clock.advance(1000)
    client_log.say(logging.WARNING, "10.0.0.1:5", "again")
    assert [record.getMessage() for record in caplog.records] == [
        "noise 0",
        "noise 1",
        "noise 2",
        "quiet (7 lines like this were left out)",
        "again",
    ]


def test_lines_are_bounded_even_if_each_comes_from_another_address(caplog: pytest.LogCaptureFixture) -> None:
    client_log = ClientLog(logging.getLogger("kqueue.server"), ManualClock(), per_second=1, burst=3)
    for number in range(3000):
        client_log.say(logging.WARNING, f"10.0.{number // 256}.{number % 256}:1", "noise")
    assert len(caplog.records) == 30
    assert len(client_log._by_address) <= ClientLog.ADDRESSES_MAX


class Someone:
    def __init__(self) -> None:
        self.holds = 0
        self.paused = False

    def go_on(self) -> None:
        assert self.paused, "only who waits is woken"
        self.paused = False


class BudgetMachine(RuleBasedStateMachine):
    """Connections that read pieces of large requests; at no time may all that could go on be
    paused.
    """

    @initialize(limit=st.one_of(st.none(), st.integers(1, 100)))
    def begin(self, limit: int | None) -> None:
        self.limit = limit
        self.budget = RequestBudget(limit)
        self.all = [Someone() for _ in range(4)]

    @rule(who=st.integers(0, 3), count=st.integers(1, 60))
    def read(self, who: int, count: int) -> None:
        someone = self.all[who]
        if someone.paused:
            return
        if self.budget.may_go_on(someone):
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
        self.budget.give_back(someone, count)
        assert not (was_paused and someone.paused)

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "budget"):
            assert self.budget.used == sum(someone.holds for someone in self.all)
            assert self.budget.crowded == any(someone.paused for someone in self.all)

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        if hasattr(self, "budget"):
            assert not all(someone.paused for someone in self.all)
            if self.limit is None or self.budget.used <= self.limit:
                assert not any(someone.paused for someone in self.all) or self.budget._privileged is not None


TestBudget = BudgetMachine.TestCase
