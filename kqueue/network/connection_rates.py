"""The rate at which connections are accepted: by the broker, by each listener, and from each
address.

Above the rate of the broker or a listener connections wait to be accepted. One above the quota of
its address is not served, and closed only when the address may connect again, so that a client that
connects anew at once gains nothing. Source: Kafka's ConnectionQuotas (KIP-612).
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.timers import Timer
from kqueue.network.connections import ConnectionRegistry

CREATION_RATE = "max.connection.creation.rate"
HELD_MAX = 100
"""Connections that wait to be closed, of one listener; more are closed at once."""


class ListenerRate:
    """The rate of one listener, within that of the whole broker."""

    def __init__(self, of_broker: RateLimiter, of_listener: RateLimiter) -> None:
        self._of_broker = of_broker
        self._of_listener = of_listener

    def wait_ms(self) -> float:
        """Return the milliseconds until one more connection is accepted; 0: now."""
        return max(self._of_broker.wait_ms(), self._of_listener.wait_ms())

    def count(self) -> None:
        """Count an accepted connection."""
        self._of_broker.count()
        self._of_listener.count()


class ConnectionRates:
    """The rates that the settings ask for, now and later."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._of_broker = RateLimiter(config[CREATION_RATE], clock)
        self._of_listeners: dict[str, ListenerRate] = {}
        config.observe([CREATION_RATE], lambda: self._of_broker.configure(config[CREATION_RATE]))

    def of_listener(self, name: str) -> ListenerRate:
        """Return the rate of a listener; that of all listeners where it has none of its own."""
        rate = self._of_listeners.get(name)
        if rate is None:
            config = self._config
            limiter = RateLimiter(config.of_listener(name, CREATION_RATE), self._clock)
            names = [CREATION_RATE, f"listener.name.{name.lower()}.{CREATION_RATE}"]
            config.observe(names, lambda: limiter.configure(config.of_listener(name, CREATION_RATE)))
            rate = self._of_listeners[name] = ListenerRate(self._of_broker, limiter)
        return rate


class HeldConnections:
    """Connections that are not served, and are closed later."""

    def __init__(self, registry: ConnectionRegistry) -> None:
        self._registry = registry
        self._held: dict[socket.socket, Timer] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, client: socket.socket, ms: int) -> None:
        """Close `client` after `ms`; at once where too many are held."""
        if len(self._held) >= HELD_MAX:
            client.close()
            return
        self._held[client] = self._registry.call_later(ms, self._closing(client))

    def close(self) -> None:
        """Close all."""
        for client, timer in self._held.items():
            timer.cancel()
            client.close()
        self._held.clear()

    def close_descriptors(self) -> None:
        """Close this process's copies only; see `Server.close_descriptors`."""
        for client in self._held:
            client.close()

    def _closing(self, client: socket.socket) -> Callable[[], None]:
        def close() -> None:
            del self._held[client]
            client.close()

        return close
