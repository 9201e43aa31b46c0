"""The audit log: who was allowed to change what, and what was denied to whom.

Each event is one line of JSON for the logger ``kqueue.audit``, level INFO:

    {"time": "2026-01-31T12:00:00.000Z", "principal": "User:ann", "client": "10.0.0.7:40404",
     "listener": "SASL_SSL", "api": "DeleteTopics", "operation": "DELETE",
     "resource": "TOPIC:orders", "decision": "denied"}

A line says what was decided, and not whether the request succeeded. It has no value that a client
sent but names, which are cut. Allowed and denied events have a rate limit each for every client, so
that no client can fill the disk or hide what others did; `left_out` counts the lines of this client
and decision since its previous one.
"""

from __future__ import annotations

import enum
import json
import logging
from collections import OrderedDict
from datetime import UTC, datetime
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.rate_limiter import RateLimiter
from kqueue.security.operations import AclOperation
from kqueue.security.principals import Principal

logger = logging.getLogger("kqueue.audit")

ADMINISTRATIVE = frozenset(
    {
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.CREATE_TOKENS,
    }
)
"""Operations that are in the log when they are allowed."""
NAME_LENGTH_MAX = 256
"""Characters of a name in a line."""


class Decision(enum.Enum):
    """The decisions of events."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "authentication failed"


class AuditEvent(NamedTuple):
    """One event. `client`: host:port. `resource`: type and name, as ``TOPIC:orders``; empty: of an
    authentication, whose `operation` is its mechanism, TLS for a client's certificate (which no
    `api` takes). `reason`: why it failed.
    """

    decision: Decision
    principal: Principal | None
    client: str
    listener: str
    api: str
    operation: str
    resource: str = ""
    reason: str = ""


class AuditLog:
    """Writes events. A client is an address and a principal; `per_second` lines of each decision
    are written for it, and `burst` at once.
    """

    CLIENTS_MAX = 1000

    def __init__(self, clock: Clock, *, per_second: float = 10, burst: float = 100) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._clients: OrderedDict[tuple[str, Principal | None, Decision], _ClientLimit] = OrderedDict()
        self._all = {decision: RateLimiter(per_second * 10, clock, burst * 10) for decision in Decision}

    def write(self, event: AuditEvent) -> None:
        """Write one event, or count it where the client has had too many."""
        limit = self._limit_of((event.client.rpartition(":")[0], event.principal, event.decision))
        if limit.limiter.wait_ms() or self._all[event.decision].wait_ms():
            limit.left_out += 1
            return
        limit.limiter.count()
        self._all[event.decision].count()
        left_out, limit.left_out = limit.left_out, 0
        fields = fields_of(event, self._clock.wall_ms(), left_out)
        logger.info(json.dumps(fields), extra=events.AUDIT.extra(**fields))

    def _limit_of(self, key: tuple[str, Principal | None, Decision]) -> _ClientLimit:
        limit = self._clients.pop(key, None)
        if limit is None:
            limit = _ClientLimit(RateLimiter(self._per_second, self._clock, self._burst))
        self._clients[key] = limit
        if len(self._clients) > self.CLIENTS_MAX:
            self._clients.popitem(last=False)
        return limit


class _ClientLimit:
    __slots__ = ("left_out", "limiter")

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.left_out = 0


def fields_of(event: AuditEvent, wall_ms: int, left_out: int = 0) -> dict[str, object]:
    """Return the values of an event by their names. As JSON they have only ASCII characters: a name
    can't end the line.
    """
    time = datetime.fromtimestamp(wall_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fields: dict[str, object] = {
        "time": f"{time}.{wall_ms % 1000:03d}Z",
        "principal": None if event.principal is None else _cut(str(event.principal)),
        "client": event.client,
        "listener": event.listener,
        "api": event.api,
        "operation": _cut(event.operation),
        "resource": _cut(event.resource),
        "decision": event.decision.value,
    }
    if event.reason:
        fields["reason"] = _cut(event.reason)
    if left_out:
        fields["left_out"] = left_out
    return fields


def _cut(text: str) -> str:
    return text if len(text) <= NAME_LENGTH_MAX else f"{text[:NAME_LENGTH_MAX]}... ({len(text)} characters)"
