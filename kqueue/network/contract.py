"""Interfaces between the modules of this package. They are here, below all of them, so that a
connection, the registry of connections and the memory budgets do not import each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kqueue.api.request_context import RequestContext
from kqueue.base import events
from kqueue.base.log_event import LogEvent
from kqueue.schema import Chunk
from kqueue.security.principals import ANONYMOUS, Principal

Chunks: TypeAlias = list[Chunk]
"""One encoded response: bytes, and regions of log files."""


class Accepted(NamedTuple):
    """A connection that a listener accepted: the client's address without the ``::ffff:`` of IPv4,
    and the listener's name. `principal`: of its certificate; without one, nobody in particular.
    """

    host: str
    port: int
    listener: str
    principal: Principal = ANONYMOUS


class StreamSocket(Protocol):
    """The calls that connections make of a non-blocking socket, or of one with TLS."""

    def fileno(self) -> int:
        """Return the descriptor; -1: closed."""
        ...

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive what has arrived; 0: the client sends no more. Raises BlockingIOError."""
        ...

    def send(self, data: memoryview, /) -> int:
        """Send what the socket accepts; returns the number of bytes. Raises BlockingIOError."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


ResponseShaper: TypeAlias = Callable[[Chunks, Callable[[], None]], None]
"""Takes an encoded response and what sends it, which it calls later: a simulated slow network. It
keeps the order of responses.
"""


class BudgetWaiter(Protocol):
    """A connection that waits for free memory in a budget."""

    def resume(self) -> None:
        """Continue: memory is free again."""
        ...


class Connection(Protocol):
    """The connection of a request, as request handling uses it.

    `address`: host:port, for log lines. `client_host`: the host as Kafka writes it. `listener`: the
    name of the listener that accepted it. `call`: the context of its previous request, reused while
    version and client id do not change. `principal`: whom it authenticated as.
    """

    address: str
    client_host: str
    listener: str
    call: RequestContext | None
    principal: Principal

    def take_arrival_ms(self) -> float:
        """Return when the first byte of the request that begins arrived, on the monotonic clock; 0:
        that is not known. Requests that arrived behind it count from the last read.
        """
        ...

    def response_ready(self) -> None:
        """Queue the deferred responses that are complete for the next flush."""
        ...

    def cut_off(
        self, reason: str, error: BaseException | None = None, *, event: LogEvent = events.CONNECTION_CLOSED
    ) -> None:
        """Log `reason`, send the responses that are complete, and close the connection."""
        ...

    def pause_requests(self) -> None:
        """Begin no more requests until `resume_requests`. Responses are still sent."""
        ...

    def resume_requests(self) -> None:
        """Begin requests again after `pause_requests`."""
        ...

    def throttle(self, ms: int) -> None:
        """Begin no more requests, and read nothing, for `ms` milliseconds. Responses are sent."""
        ...

    def suspend_io(self) -> None:
        """Neither read nor send until `resume_io`: a simulated network partition. No timeout closes
        the connection meanwhile.
        """
        ...

    def resume_io(self) -> None:
        """Read and send again after `suspend_io`."""
        ...

    def shape_responses(self, shaper: ResponseShaper | None) -> None:
        """Give each response to `shaper`, which sends it later; None: send them at once again."""
        ...


class MemoryHolding(NamedTuple):
    """Memory that a connection holds, and when it becomes free at the present transfer rate.

    Args:
        held_bytes: counted in a budget.
        remaining_bytes: to be transferred before the memory is free.
        bytes_per_s: present transfer rate.
        remaining_s: seconds until the memory is free; infinite where nothing is transferred.
    """

    held_bytes: int
    remaining_bytes: int
    bytes_per_s: float
    remaining_s: float


class ManagedConnection(Connection, BudgetWaiter, Protocol):
    """A connection, as the registry, the sweeps and the server's stop use it."""

    host: str

    @property
    def has_unsent(self) -> bool:
        """Whether there are responses that the client has not received."""
        ...

    @property
    def delayed_apis(self) -> list[str]:
        """The APIs of the requests whose response is not known yet."""
        ...

    @property
    def held_regions(self) -> int:
        """Regions of log files that are not sent; each may hold a descriptor."""
        ...

    @property
    def sent_since_sweep(self) -> int:
        """Bytes of responses that were sent since the last sweep."""
        ...

    def flush(self) -> None:
        """Send the responses that are complete, and continue to read if that freed memory."""
        ...

    def check(self, now_ms: float) -> None:
        """Close the connection if it is idle or too slow; called by each sweep."""
        ...

    def request_memory(self) -> MemoryHolding | None:
        """Return what it holds of the request budget; None: nothing to free, or rate unknown."""
        ...

    def response_memory(self) -> MemoryHolding | None:
        """Return what it holds of the response budget; None: nothing, or rate unknown."""
        ...

    def stop_reading(self) -> None:
        """Begin no more requests, for good."""
        ...

    def expire(self) -> None:
        """Complete the deferred responses that have a deadline as if it had passed."""
        ...

    def end_throttle(self) -> None:
        """Begin requests again: the time of `throttle` is over."""
        ...

    def close(self) -> None:
        """Close at once and cancel its deferred responses. A second call does nothing."""
        ...

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        ...
