"""Slow networks between clients and an embedded broker: latency, jitter, bandwidth, losses.

Each connection has two directions. A message first waits until those before it have left the
sender (`bytes_per_s`), then travels for `latency_ms` and a random part of `jitter_ms`. Messages of
one direction arrive in their order, as TCP delivers them. A loss costs a retransmission.

Requests wait before the broker handles them, responses before they are sent; both on the broker's
clock. What a client sends behind a request that is on its way arrives with it. The handshakes of
new connections take no time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from kqueue.base.names import did_you_mean
from kqueue.embedded.argument_checks import check_kind
from kqueue.network.contract import Chunks, Connection
from kqueue.network.interception import HeldRequest, InterceptedRequest
from kqueue.testing.fault_types import FaultFilter, HoldFault

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

RETRANSMISSION_MS = 200.0
"""The cost of a loss: Linux's least retransmission timeout."""
LINKS_MAX = 1000
"""Above it, the links of closed connections are dropped."""
TOGETHER_MS = 1.0
"""A request that is read so soon after the one before it was released had arrived behind it."""


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """The properties of a network, in each direction.

    Args:
        latency_ms: how long a message travels; a request and its response take twice that.
        jitter_ms: a message takes up to so much longer, at random.
        bytes_per_s: bandwidth of each connection; None: no limit.
        loss: chance that a message is lost and sent again, which takes 200 ms, from 0 to below 1.
        disconnects: chance that a request closes its connection instead, from 0 to 1.
    """

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    bytes_per_s: float | None = None
    loss: float = 0.0
    disconnects: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "bytes_per_s" and value is None:
                continue
            check_kind(field.name, value, (int, float), "a number")
            limit = 1 if field.name in ("loss", "disconnects") else math.inf
            if not 0 <= value <= limit or math.isinf(value) or (field.name, value) in (("bytes_per_s", 0), ("loss", 1)):
                rule = {"bytes_per_s": "a number above 0", "loss": "0 or more, below 1", "disconnects": "0 to 1"}
                raise ValueError(f"{field.name}={value}: expected {rule.get(field.name, 'a number, 0 or more')}")

    def with_values(self, **values: float | None) -> NetworkProfile:
        """Return this profile with the values that are not None."""
        return replace(self, **{name: value for name, value in values.items() if value is not None})


NETWORK_PROFILES: Mapping[str, NetworkProfile] = {
    "lan": NetworkProfile(latency_ms=0.2, jitter_ms=0.1, bytes_per_s=125_000_000),
    "wan": NetworkProfile(latency_ms=40, jitter_ms=5, bytes_per_s=12_500_000),
    "4g": NetworkProfile(latency_ms=25, jitter_ms=15, bytes_per_s=1_500_000),
    "3g": NetworkProfile(latency_ms=100, jitter_ms=30, bytes_per_s=200_000),
    "satellite": NetworkProfile(latency_ms=300, jitter_ms=20, bytes_per_s=2_500_000),
    "flaky": NetworkProfile(latency_ms=50, jitter_ms=50, bytes_per_s=1_000_000, loss=0.05, disconnects=0.01),
}
"""The networks that `Faults.shape_network` knows by name."""


def network_profile(profile: str | NetworkProfile | None) -> NetworkProfile:
    """Return the profile of this name; None: a network that costs nothing.

    Raises: ValueError: no such name; suggests the nearest. TypeError.
    """
    if profile is None:
        return NetworkProfile()
    check_kind("profile", profile, (str, NetworkProfile), f"one of {', '.join(NETWORK_PROFILES)}, or a NetworkProfile")
    if isinstance(profile, NetworkProfile):
        return profile
    known_profile = NETWORK_PROFILES.get(profile.lower())
    if known_profile is None:
        known = ", ".join(NETWORK_PROFILES)
        raise ValueError(
            f"there is no network profile {profile!r}{did_you_mean(profile, NETWORK_PROFILES)} (there are: {known})"
        )
    return known_profile


class _Direction:
    """One direction of a connection: when what is sent now arrives."""

    def __init__(self, profile: NetworkProfile, rng: Random) -> None:
        self._profile = profile
        self._rng = rng
        self._free_ms = 0.0  # when the sender has sent all that is before
        self._last_ms = 0.0  # when the last message arrives

    def arrival_ms(self, now_ms: float, size: int, *, latency: bool = True) -> float:
        """Return when a message of `size` bytes arrives that is sent at `now_ms`.

        Args: latency: False: it travels behind another, and arrives as soon as it was sent.
        """
        profile = self._profile
        sent_ms = max(now_ms, self._free_ms)
        if profile.bytes_per_s is not None:
            sent_ms += size * 1000 / profile.bytes_per_s
        self._free_ms = sent_ms
        if latency:
            sent_ms += profile.latency_ms + self._rng.random() * profile.jitter_ms
        while profile.loss and self._rng.random() < profile.loss:
            sent_ms += RETRANSMISSION_MS
        self._last_ms = max(sent_ms, self._last_ms)
        return self._last_ms


class _Link:
    """A connection whose requests and responses are delayed."""

    def __init__(self, connection: Connection, profile: NetworkProfile, rng: Random) -> None:
        self.connection = connection
        self.requests = _Direction(profile, rng)
        self.responses = _Direction(profile, rng)
        self.released_ms = -math.inf
        self.unsent: dict[int, Callable[[], None]] = {}
        self._number = 0

    def keep(self, send: Callable[[], None]) -> int:
        """Keep what sends a response; `send` takes it."""
        self._number += 1
        self.unsent[self._number] = send
        return self._number

    def send(self, number: int) -> None:
        """Send a response, unless it was sent."""
        send = self.unsent.pop(number, None)
        if send is not None:
            send()


class NetworkShape(HoldFault):
    """Delays requests and responses as a slow network does, until it is cancelled."""

    def __init__(
        self,
        profile: NetworkProfile,
        which: FaultFilter,
        seed: int,
        rng: Random,
        changed: threading.Condition,
        on_owner: Callable[[Callable[[], None]], None],
        open_connections: Callable[[], Collection[Connection]],
    ) -> None:
        """Args: seed: of delays. Each client id has its own sequence of random numbers, so that its
        delays do not depend on other clients.
        """
        self._open_connections = open_connections
        clients = "all clients" if which.client_id is None else repr(which.client_id)
        super().__init__(f"shape_network of {clients}", which, rng, changed, on_owner)
        self.profile = profile
        self._seed = seed
        self._rngs: dict[str | None, Random] = {}
        self._links: dict[Connection, _Link] = {}

    def apply(self, asked: InterceptedRequest) -> None:
        broker: Broker = asked.call.broker
        link = self._link_of(asked)
        rng = self._rng_of(asked.call.client_id)
        if self.profile.disconnects and rng.random() < self.profile.disconnects:
            del self._links[asked.connection]
            asked.cut(f"injected fault: {self.what}")
            return
        now_ms = broker.scheduler.clock.monotonic_ms()
        is_behind = now_ms - link.released_ms < TOGETHER_MS
        arrival_ms = link.requests.arrival_ms(now_ms, asked.size, latency=not is_behind)
        if arrival_ms > now_ms:
            held = self._hold(asked)
            broker.scheduler.timers.at(arrival_ms, lambda: self._arrived(link, held, broker))

    def _arrived(self, link: _Link, held: HeldRequest, broker: Broker) -> None:
        if self._held.pop(held, False) is None:
            link.released_ms = broker.scheduler.clock.monotonic_ms()
            held.release()

    def _link_of(self, asked: InterceptedRequest) -> _Link:
        link = self._links.get(asked.connection)
        if link is None:
            if len(self._links) >= LINKS_MAX:
                open_ones = self._open_connections()
                self._links = {one: kept for one, kept in self._links.items() if one in open_ones}
            link = _Link(asked.connection, self.profile, self._rng_of(asked.call.client_id))
            self._links[asked.connection] = link
            asked.connection.shape_responses(partial(self._shape, link, asked.call.broker))
        return link

    def _shape(self, link: _Link, broker: Broker, chunks: Chunks, send: Callable[[], None]) -> None:
        now_ms = broker.scheduler.clock.monotonic_ms()
        number = link.keep(send)
        arrival_ms = link.responses.arrival_ms(now_ms, sum(map(len, chunks)))
        broker.scheduler.timers.at(arrival_ms, lambda: link.send(number))

    def _rng_of(self, client_id: str | None) -> Random:
        rng = self._rngs.get(client_id)
        if rng is None:
            rng = self._rngs[client_id] = Random(f"{self._seed}/{client_id}")
        return rng

    def _release_all(self) -> None:
        super()._release_all()
        while self._links:
            connection, link = self._links.popitem()
            connection.shape_responses(None)
            for number in list(link.unsent):
                link.send(number)
