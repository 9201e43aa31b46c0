"""The states of a connection to another broker, and what all of them share."""

from __future__ import annotations

import asyncio
import enum
import random
from typing import TYPE_CHECKING, Protocol

from kqueue.base.clock import Clock
from kqueue.base.jobs import Jobs
from kqueue.base.timers import Timers
from kqueue.network.client_log import ClientLog
from kqueue.network.memory_budgets import RequestBudget
from kqueue.network.response_buffer import Release

if TYPE_CHECKING:
    from kqueue.network.peer_security import PeerSecurity


class ChannelState(enum.Enum):
    """See `peer_channel`."""

    CLOSED = "closed"
    RESOLVING = "resolving"
    CONNECTING = "connecting"
    HANDSHAKING = "TLS handshake"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    OPEN = "open"


class ChannelHost(Protocol):
    """The objects that the channels to all brokers share; see `PeerConnections`."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    jobs: Jobs
    rng: random.Random
    log: ClientLog
    budget: RequestBudget
    received: memoryview
    response_bytes_max: int
    security: PeerSecurity | None

    def is_leaving(self, node_id: int) -> bool:
        """Whether a broker stops in order, so that the end of its connections is no surprise."""

    @property
    def release(self) -> Release:
        """Releases the bytes of a response whose memory was freed; see `ResponseBuffer`."""
