"""Lines about single requests: those that are slow, and a sample of all.

The logger stands around the handler of each API while `kqueue.slow.request.ms` or
`kqueue.request.log.sample` asks for it, as the `RequestMeter` does for metrics; else it is not
there and costs nothing. The time of a request begins with its first byte and ends with its
response, before that is sent:

    queued     its bytes arrive, and requests of its connection before it are answered
    handled    on the broker's thread
    waited     in the purgatory: for a disk, for replicas, for members of a group

A wait that the client wishes does not make a request slow: a Fetch waits for `max_wait_ms` until
there are records, a JoinGroup and a SyncGroup until the members of the group have come.
Source: Kafka's `kafka.request.logger`, which has all or none.
"""

from __future__ import annotations

import logging
import math
import random
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from kqueue.api.handler_table import ApiHandler
from kqueue.api.request_context import RequestContext
from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.log_event import LogEvent
from kqueue.broker.purgatory import DelayedOperation

logger = logging.getLogger("kqueue.requests")
Handle = Callable[[Any, RequestContext], Any]
HEADER: Final = struct.Struct(">hhi")
"""The first bytes of every request; the last four are its correlation id."""
SLOW_MS: Final = "kqueue.slow.request.ms"
SAMPLE: Final = "kqueue.request.log.sample"


def _max_wait(request: Any) -> float:
    return float(request.max_wait_ms)


def _unbounded(request: Any) -> float:
    return math.inf


WISHED_MS: Final[Mapping[str, Callable[[Any], float]]] = {
    "Fetch": _max_wait,
    "ShareFetch": _max_wait,
    "JoinGroup": _unbounded,
    "SyncGroup": _unbounded,
}
"""The APIs whose requests may wish to wait, and for how long."""


class ArrivalTimes(Protocol):
    """A connection that knows when the bytes of its requests arrive."""

    def take_arrival_ms(self) -> float:
        """Return when the first byte of the request that begins arrived, on the monotonic clock; 0:
        that is not known.
        """
        ...


class RequestLogger:
    """Writes the lines about one broker's requests. Thread: the owner thread.

    Args:
        slow_ms: requests that take longer have a line; negative: none.
        sample: the share of all requests that have a line, from 0 to 1.
    """

    def __init__(self, clock: Clock, rng: random.Random, *, slow_ms: float, sample: float) -> None:
        self._now_ms = clock.monotonic_ms
        self._random = rng.random
        self._slow_ms = slow_ms if slow_ms >= 0 else math.inf
        self._sample = sample
        self._correlation_id = 0
        self._arrived_ms = 0.0

    @property
    def is_active(self) -> bool:
        """Whether any request can have a line."""
        return self._sample > 0 or self._slow_ms < math.inf

    def begin(self, frame: memoryview, connection: ArrivalTimes) -> None:
        """Note the request whose handler is called next."""
        self._correlation_id = HEADER.unpack_from(frame)[2] if len(frame) >= HEADER.size else 0
        self._arrived_ms = connection.take_arrival_ms()

    def logged(self, row: ApiHandler, handle: Handle) -> Handle:
        """Return the handler of an API that writes the lines of what `handle` serves."""
        return partial(self._run, row.api.name, handle)

    def _run(self, api: str, handle: Handle, request: Any, context: RequestContext) -> Any:
        began_ms = self._now_ms()
        call = _Call(api, request, context, self._correlation_id, self._arrived_ms or began_ms, began_ms)
        try:
            result = handle(request, context)
        except Exception:
            self._end(call, began_ms)
            raise
        if isinstance(result, DelayedOperation):
            call.handled_ms += self._now_ms() - began_ms
            return self._follow(call, result)
        self._end(call, began_ms)
        return result

    def _follow(self, call: _Call, operation: DelayedOperation[Any]) -> DelayedOperation[Any]:
        """Let an operation, and what replaces it, end the call when it is complete."""
        try_complete = operation.try_complete

        def logged(expired: bool) -> Any:
            began_ms = self._now_ms()
            try:
                result = try_complete(expired)
            except Exception:
                self._end(call, began_ms)
                raise
            if result is not None and not isinstance(result, DelayedOperation):
                self._end(call, began_ms)
                return result
            call.handled_ms += self._now_ms() - began_ms
            return result if result is None else self._follow(call, result)

        operation.try_complete = logged
        return operation

    def _end(self, call: _Call, began_ms: float) -> None:
        """Write the lines of a call whose last step has begun at `began_ms`."""
        now_ms = self._now_ms()
        call.handled_ms += now_ms - began_ms
        took_ms = now_ms - call.arrived_ms
        waited_ms = max(0.0, now_ms - call.began_ms - call.handled_ms)
        if took_ms > self._slow_ms and took_ms - min(waited_ms, call.wished_ms) > self._slow_ms:
            call.write(events.REQUEST_SLOW, took_ms, waited_ms)
        if self._sample and self._random() < self._sample:
            call.write(events.REQUEST_SAMPLED, took_ms, waited_ms)


class _Call:
    """One request until its response. Times are of the monotonic clock."""

    __slots__ = ("api", "arrived_ms", "began_ms", "context", "correlation_id", "handled_ms", "wished_ms")

    def __init__(
        self, api: str, request: Any, context: RequestContext, correlation_id: int, arrived_ms: float, began_ms: float
    ) -> None:
        self.api = api
        self.context = context
        self.correlation_id = correlation_id
        self.arrived_ms = arrived_ms
        self.began_ms = began_ms
        self.handled_ms = 0.0
        wished_ms = WISHED_MS.get(api)
        self.wished_ms = 0.0 if wished_ms is None else wished_ms(request)

    def write(self, event: LogEvent, took_ms: float, waited_ms: float) -> None:
        context = self.context
        event.log(
            logger,
            "%s version %d of %s (client id %.100r, %s, listener %s, correlation id %d) took %.1f ms: "
            "%.1f queued, %.1f handled, %.1f waited",
            api=self.api,
            version=context.api_version,
            connection=getattr(context.connection, "address", context.client_host),
            client_id=context.client_id,
            principal=context.principal,
            listener=context.listener,
            correlation_id=self.correlation_id,
            took_ms=round(took_ms, 3),
            queued_ms=round(self.began_ms - self.arrived_ms, 3),
            handled_ms=round(self.handled_ms, 3),
            waited_ms=round(waited_ms, 3),
        )
