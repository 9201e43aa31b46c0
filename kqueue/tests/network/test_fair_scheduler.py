from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.base.histogram import Histogram
from kqueue.network.fair_scheduler import NEW_SLICE_S, SLICE_S, FairScheduler
from kqueue.tests.network.harness import API, Harness, network_harness, request_bytes, until
from kqueue.tests.network.test_session import run
from kqueue.tests.tables import for_each
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.workers.loop_pass import PASS_S


class Loop:
    """An event loop that runs callbacks in its next poll; `polls` counts the polls."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.polls = 0

    def call_soon(self, call: Callable[[], None]) -> Any:
        self.soon.append(call)
        return _Handle(self, call)

    def poll(self) -> None:
        self.polls += 1
        calls, self.soon = self.soon, []
        for call in calls:
            call()


class _Handle:
    def __init__(self, loop: Loop, call: Callable[[], None]) -> None:
        self._loop, self._call = loop, call

    def cancel(self) -> None:
        self._loop.soon.remove(self._call)


class World:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.loop = Loop()
        self.turns = FairScheduler(self.loop, lambda: self.now_s)  # type: ignore[arg-type]
        self.log: list[tuple[str, float]] = []

    def served(self, name: str) -> list[float]:
        return [at for one, at in self.log if one == name]


class Busy:
    """A connection with `requests` requests of `cost_s` each."""

    def __init__(self, world: World, name: str, cost_s: float, requests: int) -> None:
        self.world, self.name, self.cost_s, self.requests = world, name, cost_s, requests
        self.served_s, self.slice_s = 0.0, NEW_SLICE_S

    def arrives(self, requests: int = 0) -> None:
        self.requests += requests
        self.run_slice()

    def run_slice(self) -> None:
        turns = self.world.turns
        until = turns.begin(self)
        while self.requests and self.world.now_s < until:
            self.requests -= 1
            self.world.now_s += self.cost_s
            self.world.log.append((self.name, self.world.now_s))
        turns.end(self)
        if self.requests:
            turns.add(self)


@for_each("count, requests", [(10, 100), (40, 450), (450, 1)])
def test_quiet_connection_waits_for_two_passes_at_most(count: int, requests: int) -> None:
    world = World()
    quiet = Busy(world, "quiet", 0.0002, 0)
    quiet.arrives(1)
    for number in range(count):
        Busy(world, f"busy {number}", 0.015, 0).arrives(requests)
    late_s = []
    for _ in range(60):
        asked_s = world.now_s
        world.loop.poll()
        quiet.arrives(1)
        while quiet.requests:
            world.loop.poll()
        late_s.append(world.now_s - asked_s)
    assert max(late_s) <= 2 * (PASS_S + 0.015)


def test_time_in_the_queue_is_measured_of_those_that_queue() -> None:
    world = World()
    queued = world.turns.queued = Histogram()
    Busy(world, "quiet", 0.0002, 0).arrives(1)
    assert queued.count == 0
    for name in ("a", "b"):
        Busy(world, name, 0.015, 0).arrives(2)
    world.now_s += 1
    while world.loop.soon:
        world.loop.poll()
    assert queued.count >= 2
    assert queued.sum_s >= 2


def test_busy_connections_get_equal_time() -> None:
    world = World()
    costs = {"cheap": 0.0005, "medium": 0.004, "dear": 0.02}
    for name, cost_s in costs.items():
        Busy(world, name, cost_s, 0).arrives(10_000)
    while world.now_s < 3:
        world.loop.poll()
    for name, cost_s in costs.items():
        assert len(world.served(name)) * cost_s == pytest.approx(1, abs=0.05), name


def test_idle_connection_gains_no_credit() -> None:
    world = World()
    sleeper = Busy(world, "sleeper", 0.01, 0)
    sleeper.arrives(1)
    busy = Busy(world, "busy", 0.01, 0)
    busy.arrives(1000)
    while world.now_s < 2:
        world.loop.poll()
    began_s = world.now_s
    sleeper.arrives(1000)
    while world.now_s < began_s + 1:
        world.loop.poll()
    assert len([at for at in world.served("busy") if at > began_s]) == pytest.approx(50, abs=3)


def test_uncontended_connection_runs_at_once_and_a_pass_lets_the_loop_poll() -> None:
    world = World()
    Busy(world, "a", SLICE_S / 4, 0).arrives(3)
    assert (len(world.log), world.loop.soon) == (3, [])
    many = Busy(world, "b", SLICE_S / 4, 0)
    many.arrives(100)
    assert len(world.served("b")) == 4, "one turn"
    world.loop.poll()
    assert len(world.served("b")) == 4 + PASS_S / SLICE_S * 4
    world.turns.close()
    world.loop.poll()
    assert len(world.log) == 3 + 4 + PASS_S / SLICE_S * 4


# --- sessions


async def with_heavy_requests(test: Callable[[Harness, list[str]], Any]) -> None:
    """Heartbeats take 15 ms of the scheduler's clock where `member_id` says so.

    Returns: the list of handled requests.
    """
    async with network_harness() as harness:
        now_s = 0.0
        harness.connections.scheduler.now = lambda: now_s
        order: list[str] = []

        def handle(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
            nonlocal now_s
            order.append(request.group_id)
            now_s += 0.015 if request.member_id == "heavy" else 0.0001
            return HeartbeatResponse()

        harness.serve("Heartbeat", handle)
        await test(harness, order)


def test_pipelined_requests_do_not_delay_other_connections() -> None:
    async def scenario(harness: Harness, order: list[str]) -> None:
        good, _ = await harness.connect()
        await good.ask("Heartbeat", 4, group_id="good")
        heavy = [(await harness.connect())[0] for _ in range(10)]
        for client in heavy:
            client.send_raw(
                request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="heavy", member_id="heavy")) * 100
            )
        await until(lambda: "heavy" in order)
        for _ in range(20):
            before = order.count("heavy")
            await good.ask("Heartbeat", 4, group_id="good")
            assert order.count("heavy") - before <= 8, "some passes of one request each"
        for client in heavy:
            for _ in range(100):
                await client.receive("Heartbeat", 4)

    run(lambda: with_heavy_requests(scenario))
