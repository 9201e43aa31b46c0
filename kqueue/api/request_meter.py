"""Counts requests, their errors, times and bytes, for metrics.

The meter stands between the dispatcher and a handler, like the quota gate, while some exporter
wants its counts; without one it is not there and costs nothing. It keeps plain numbers and knows no
exporter. Source of what is counted: Kafka's RequestMetrics and BrokerTopicMetrics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kqueue.api.errors import code_of
from kqueue.api.handler_table import ApiHandler
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_RESPONSE
from kqueue.base.clock import monotonic_s
from kqueue.base.histogram import Histogram
from kqueue.broker.purgatory import DelayedOperation
from kqueue.schema.field_types import ArrayType, StructType
from kqueue.schema.structs import schema_of
from kqueue.wire.messages.produce import ProduceResponse

ERROR_CODE = "error_code"
Handle = Callable[[Any, RequestContext], Any]


class ApiCounts:
    """What is counted of one API, over all versions.

    Attributes:
        requests: that began.
        errors: how often each error code was answered, a partition counting for itself.
        handling: time on the broker's thread until the request is answered, or waits.
        waiting: time that requests waited in the purgatory, of those that did.
    """

    __slots__ = ("errors", "handling", "requests", "waiting")

    def __init__(self) -> None:
        self.requests = 0
        self.errors: Counter[int] = Counter()
        self.handling = Histogram()
        self.waiting = Histogram()


class RequestMeter:
    """The counts of one broker. Thread: the owner thread.

    Attributes:
        apis: by the protocol's name of the API.
        sent_bytes: bytes of record batches that consumers got, by topic id, or by name where the
            version of the request has names. Those that followers copy do not count.
    """

    def __init__(self, now: Callable[[], float] = monotonic_s) -> None:
        """Args: now: seconds of a clock that measures how long requests take."""
        self._now = now
        self.apis: dict[str, ApiCounts] = defaultdict(ApiCounts)
        self.sent_bytes: Counter[str | bytes] = Counter()

    def measured(self, row: ApiHandler, handle: Handle) -> Handle:
        """Return the handler of an API that counts what `handle` does."""
        counts = self.apis[row.api.name]
        if row.api.name == "Produce":
            return _ProduceMeter(self._now, counts, _produce_errors).measured(handle)
        if row.api.name == "Fetch":
            return _FetchMeter(self._now, counts, self.sent_bytes).measured(handle)
        return _Meter(self._now, counts, error_codes(row.api.response_class)).measured(handle)


class _Meter:
    """Counts the requests of one API.

    `errors_of`: returns the error codes in a response that are not 0.
    """

    TIMED = 1
    """Each so-manyth request is timed."""

    def __init__(self, now: Callable[[], float], counts: ApiCounts, errors_of: Callable[[Any], Iterable[int]]) -> None:
        self._now = now
        self._counts = counts
        self._errors_of = errors_of

    def measured(self, handle: Handle) -> Handle:
        """Return `handle`, counted."""
        return partial(self._run, handle)

    def _run(self, handle: Handle, request: Any, context: RequestContext) -> Any:
        counts = self._counts
        counts.requests += 1
        began_s = 0.0 if counts.requests % self.TIMED else self._now()
        try:
            result = handle(request, context)
        except Exception as error:
            counts.errors[code_of(error)] += 1
            raise
        finally:
            if began_s:
                counts.handling.observe(self._now() - began_s)
        if isinstance(result, DelayedOperation):
            return self._follow(result, request, began_s)
        if result is not None and result is not NO_RESPONSE:
            self.answered(request, result)
        return result

    def answered(self, request: Any, response: Any) -> None:
        """Count what a response has."""
        for code in self._errors_of(response):
            self._counts.errors[code] += 1

    def _follow(self, operation: DelayedOperation[Any], request: Any, began_s: float) -> DelayedOperation[Any]:
        """Count how long an operation waits for its response, and what replaces it meanwhile."""
        try_complete, counts = operation.try_complete, self._counts

        def measured(expired: bool) -> Any:
            result: Any = NO_RESPONSE
            try:
                result = try_complete(expired)
            except Exception as error:
                counts.errors[code_of(error)] += 1
                raise
            finally:
                if began_s and result is not None and not isinstance(result, DelayedOperation):
                    counts.waiting.observe(self._now() - began_s)
            if isinstance(result, DelayedOperation):
                return self._follow(result, request, began_s)
            if result is not None and result is not NO_RESPONSE:
                self.answered(request, result)
            return result

        operation.try_complete = measured
        return operation


# Of these two APIs a broker handles tens of thousands a second, so only some requests are timed:
# two looks at the clock and a bucket are as much as all else.
_TIMED = 16


class _ProduceMeter(_Meter):
    """Has a way of its own for a request of which nothing is counted: the usual way costs 6 % of
    a small one, this one 2 %.
    """

    TIMED = _TIMED

    def measured(self, handle: Handle) -> Handle:
        counts, run = self._counts, self._run

        def measure(request: Any, context: RequestContext) -> Any:
            number = counts.requests + 1
            if not number % _TIMED:
                return run(handle, request, context)
            counts.requests = number
            try:
                result = handle(request, context)
            except Exception as error:
                counts.errors[code_of(error)] += 1
                raise
            if result.__class__ is ProduceResponse:
                for topic in result.responses:
                    for partition in topic.partition_responses:
                        if partition.error_code:
                            counts.errors[partition.error_code] += 1
            elif result is not None:
                return self._follow(result, request, 0.0)
            return result

        return measure


class _FetchMeter(_Meter):
    """Counts the bytes that consumers get, too."""

    TIMED = _TIMED

    def __init__(self, now: Callable[[], float], counts: ApiCounts, sent_bytes: Counter[str | bytes]) -> None:
        super().__init__(now, counts, _fetch_errors)
        self._sent_bytes = sent_bytes

    def answered(self, request: Any, response: Any) -> None:
        super().answered(request, response)
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            return  # a follower
        for topic in response.responses:
            size = 0
            for partition in topic.partitions:
                if partition.records is not None:
                    size += len(partition.records)
            self._sent_bytes[topic.topic or topic.topic_id] += size


def _produce_errors(response: Any) -> list[int]:
    return [one.error_code for topic in response.responses for one in topic.partition_responses if one.error_code]


def _fetch_errors(response: Any) -> list[int]:
    codes = [one.error_code for topic in response.responses for one in topic.partitions if one.error_code]
    return [*codes, response.error_code] if response.error_code else codes


class _Node(NamedTuple):
    """Where a struct of a response has error codes: in itself, and in the lists and structs of it
    that have some.
    """

    has_code: bool
    lists: tuple[tuple[str, _Node], ...]
    structs: tuple[tuple[str, _Node], ...]

    @property
    def is_empty(self) -> bool:
        return not (self.has_code or self.lists or self.structs)

    def codes(self, value: Any) -> Iterator[int]:
        """Return the error codes in a struct that are not 0."""
        if self.has_code and value.error_code:
            yield value.error_code
        for name, node in self.structs:
            part = getattr(value, name)
            if part is not None:
                yield from node.codes(part)
        for name, node in self.lists:
            for part in getattr(value, name) or ():
                yield from node.codes(part)


def error_codes(response_class: type) -> Callable[[Any], Iterator[int]]:
    """Return a function that returns the error codes in a response of this class, those of each
    partition and so on, without 0.
    """
    return _node(schema_of(response_class)).codes


def _node(schema: Any) -> _Node:
    has_code, lists, structs = False, [], []
    for one in schema.fields:
        kind = one.kind
        if one.name == ERROR_CODE:
            has_code = True
        elif isinstance(kind, ArrayType) and isinstance(kind.of, StructType):
            lists.append((one.name, _node(kind.of.schema)))
        elif isinstance(kind, StructType):
            structs.append((one.name, _node(kind.schema)))
    return _Node(
        has_code,
        tuple(row for row in lists if not row[1].is_empty),
        tuple(row for row in structs if not row[1].is_empty),
    )
