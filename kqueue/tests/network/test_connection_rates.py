from __future__ import annotations

import socket
from typing import Any

from kqueue.base.config import Config, ConfigSource
from kqueue.base.timers import Timers
from kqueue.config.catalog import CATALOG
from kqueue.network.connection_rates import CREATION_RATE, HELD_MAX, ConnectionRates, HeldConnections, ListenerRate
from kqueue.testing.manual_clock import ManualClock

OF_SLOW = f"listener.name.slow.{CREATION_RATE}"


def accepted(rate: ListenerRate) -> int:
    """How many connections are accepted at once."""
    count = 0
    while not rate.wait_ms():
        rate.count()
        count += 1
    return count


def test_a_listener_is_bounded_by_its_own_rate_and_by_that_of_all() -> None:
    clock = ManualClock()
    rates = ConnectionRates(Config(CATALOG, {CREATION_RATE: 10, OF_SLOW: 4}), clock)
    slow, other = rates.of_listener("SLOW"), rates.of_listener("OTHER")
    assert rates.of_listener("SLOW") is slow
    assert accepted(slow) == 4
    assert accepted(other) == 6
    clock.advance(1000)
    assert accepted(other) == 10
    assert slow.wait_ms() > 0


def test_a_rate_that_is_changed_holds_at_once() -> None:
    clock = ManualClock()
    config = Config(CATALOG, {OF_SLOW: 1})
    slow = ConnectionRates(config, clock).of_listener("SLOW")
    assert accepted(slow) == 1
    config.set_dynamic(ConfigSource.DYNAMIC_BROKER, {OF_SLOW: 5})
    clock.advance(1000)
    assert accepted(slow) == 5


class Registry:
    """Calls later by timers of a test's own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)

    def call_later(self, ms: float, run: Any) -> Any:
        return self.timers.at(self.clock.monotonic_ms() + ms, run)

    def pass_ms(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.monotonic_ms())


def test_connections_are_held_for_their_time_and_so_many_at_most() -> None:
    registry = Registry()
    held = HeldConnections(registry)  # type: ignore[arg-type]
    first, later = socket.socket(), socket.socket()
    held.hold(first, 500)
    held.hold(later, 800)
    registry.pass_ms(600)
    assert (first.fileno(), len(held)) == (-1, 1)
    assert later.fileno() >= 0
    more = [socket.socket() for _ in range(HELD_MAX)]
    for client in more:
        held.hold(client, 500)
    assert (len(held), more[-1].fileno()) == (HELD_MAX, -1)
    held.close()
    assert [client.fileno() for client in (later, *more)] == [-1] * (HELD_MAX + 1)
    registry.pass_ms(1000)
