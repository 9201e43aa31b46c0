"""Holds clients to their quotas: counts what each request used, says in the response for how long
the client is held back, and begins nothing of its connection for that time.

So a client that ignores the response waits too. The gate is between the dispatcher and the handlers
while some quota is set; without quotas it is not there. A Fetch counts its bytes itself, because it
is answered without records (`api/handlers/fetch`). A ShareFetch is answered with its records, which
its member has acquired, and the member waits after it. What brokers ask of each other is not
bounded. Source: Kafka's RequestHandlerHelper, ClientQuotaManager, ClientRequestQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kqueue.api.access import Applies, Rule
from kqueue.api.handler_table import ApiHandler
from kqueue.api.request_context import RequestContext
from kqueue.base.clock import monotonic_s
from kqueue.broker.access.client_quotas import ClientQuotas
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.security.quotas import CONTROLLER_MUTATION_RATE

PRODUCE = "Produce"
FETCH = "Fetch"
SHARE_FETCH = "ShareFetch"
CHANGES_PARTITIONS = frozenset({"CreateTopics", "CreatePartitions", "DeleteTopics"})
"""APIs whose handlers count by the quota of changed partitions; the response says for how long."""
BETWEEN_BROKERS = frozenset({"WriteTxnMarkers"})
"""APIs that only brokers use, besides those whose rules say so."""


class QuotaGate:
    """Bounds the clients of one broker. Thread: the owner thread.

    Args: now: seconds of a clock that measures how long requests take.
    """

    def __init__(self, quotas: ClientQuotas, now: Callable[[], float] = monotonic_s) -> None:
        self.quotas = quotas
        self.now = now
        self.began_s = 0.0
        self.request_bytes = 0

    def begin(self, request_bytes: int) -> None:
        """Note the size of the request that is decoded next, and when that begins."""
        self.began_s = self.now()
        self.request_bytes = request_bytes

    def bounded(self, row: ApiHandler) -> Callable[[Any, RequestContext], Any]:
        """Return the handler of an API behind this gate."""
        handle = row.handle
        name = row.api.name
        if name in BETWEEN_BROKERS or _is_between_brokers(row.access or ()):
            return handle
        counts_bytes = name == PRODUCE

        def handle_bounded(request: Any, context: RequestContext) -> Any:
            if name == FETCH and _is_from_follower(request):
                return handle(request, context)
            use = RequestUse(self, context, self.request_bytes if counts_bytes else 0)
            use.has_records = name == SHARE_FETCH
            use.changes_partitions = name in CHANGES_PARTITIONS
            try:
                result = handle(request, context)
            except Exception:
                use.add(self.now() - self.began_s)
                use.finish(None)
                raise
            use.add(self.now() - self.began_s)
            return use.settle(result)

        return handle_bounded


class RequestUse:
    """The resources that one request uses until its response is complete.

    `has_records`: the records of its response count. `changes_partitions`: its response says for
    how long the quota of these changes holds its client back.
    """

    __slots__ = ("_context", "_gate", "_produced_bytes", "_seconds", "changes_partitions", "has_records")

    def __init__(self, gate: QuotaGate, context: RequestContext, produced_bytes: int) -> None:
        self._gate = gate
        self._context = context
        self._produced_bytes = produced_bytes
        self._seconds = 0.0
        self.has_records = self.changes_partitions = False

    def add(self, seconds: float) -> None:
        """Add time on the broker's thread."""
        self._seconds += seconds

    def settle(self, result: Any) -> Any:
        """Return what a handler returned, counted when it is complete."""
        if isinstance(result, DelayedOperation):
            result.try_complete = self._measured(result.try_complete)
            return result
        self.finish(result)
        return result

    def finish(self, response: Any) -> None:
        """Count the request, and hold its connection back if it is above a quota, or if its
        response says so.

        Args: response: None, or without a throttle time: there is nothing that could say it.
        """
        context, quotas = self._context, self._gate.quotas
        user, client_id = context.principal.name, context.client_id
        throttle_ms = quotas.count_time(user, client_id, self._seconds)
        if self._produced_bytes:
            throttle_ms = max(throttle_ms, quotas.count_produced(user, client_id, self._produced_bytes))
        if self.has_records and response is not None:
            throttle_ms = max(throttle_ms, quotas.count_sent(user, client_id, _records_bytes(response)))
        asked_ms: int | None = getattr(response, "throttle_time_ms", None)
        if asked_ms is not None:
            if self.changes_partitions:
                quotas.held_back(CONTROLLER_MUTATION_RATE, asked_ms)
            response.throttle_time_ms = throttle_ms = max(throttle_ms, asked_ms)
        if throttle_ms:
            context.throttle(throttle_ms)

    def _measured(self, try_complete: Callable[[bool], Any]) -> Callable[[bool], Any]:
        now = self._gate.now

        def measured(expired: bool) -> Any:
            began_s = now()
            try:
                result = try_complete(expired)
            except Exception:
                self.add(now() - began_s)
                self.finish(None)
                raise
            self.add(now() - began_s)
            return None if result is None else self.settle(result)

        return measured


def _records_bytes(response: Any) -> int:
    return sum(
        len(partition.records) for topic in response.responses for partition in topic.partitions if partition.records
    )


def _is_between_brokers(access: tuple[Rule, ...]) -> bool:
    return any(rule.operation is AclOperation.CLUSTER_ACTION and rule.applies is Applies.WHOLE for rule in access)


def _is_from_follower(request: Any) -> bool:
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
