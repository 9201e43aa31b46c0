"""From the bytes of one request to the bytes of its answer: header, table, reader, handler, writer."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.api import handler_table
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_RESPONSE
from kqueue.base.errors import (
    KqueueError,
    MalformedMessage,
    StorageFailed,
    TooManyItems,
    TransactionsNotServed,
    UnencodableMessage,
)
from kqueue.base.settings import MiB
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.connection_quotas import ClientLog
from kqueue.network.interception import BrokerHooks, InterceptedRequest, RequestObserver
from kqueue.network.responses import Chunks, Connection, DeferredResponse
from kqueue.network.send_queue import MEMORY
from kqueue.schema import counted_reader, reader, writer
from kqueue.wire.headers import RequestHeader, has_error_code, request_header_version, response_header

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

KEY_AND_VERSION = struct.Struct(">hh")
"""How every request begins; the rest of its header depends on it."""
SIZE_AND_CORRELATION = struct.Struct(">Ii")
"""How every response begins: its size without these first four bytes, and the request's own number.
"""
RESPONSE_SIZE_MAX = 2**31 - 1
PRODUCE_KEY = 0
REPLY_DROPPED = "a hook dropped its reply"
CLIENT_ID_KEPT_MAX = 256
"""Characters of a client id that a connection keeps between requests: with 32 KB each, idle
connections would hold hundreds of MB.
"""
PLAIN_BYTES_MAX_DEFAULT = 16 * MiB
ITEMS_MAX_DEFAULT = 200_000


class Route(NamedTuple):
    """All that one API needs at one version, found once. `overlaps` is that of `DeferredResponse`."""

    served: handler_table.ApiHandler
    version: int
    header_tail: bytes
    read_header: Callable[[memoryview, int], tuple[RequestHeader, int]]
    read: Callable[[memoryview, int], tuple[Any, int]]
    handle: Callable[[Any, RequestContext], Any]
    write: Callable[[Any, list[Any]], None]
    overlaps: bool
    items_max: int
    """Items (see `schema.counted_reader`) that one request may hold. One of at most as many bytes
    needs no counting.
    """

    def counted(self) -> Route:
        """This route for a request that may hold more: its readers count, and raise TooManyItems."""
        items_max = self.items_max
        header = counted_reader(RequestHeader, request_header_version(self.served.api.key, self.version))
        body = counted_reader(self.served.api.request_class, self.version)
        return self._replace(
            read_header=lambda frame, position: header(frame, position, items_max),
            read=lambda frame, position: body(frame, position, items_max),
        )


class Dispatcher:
    """Starts requests; `lookup` is the table of APIs, `plain_bytes_max` bounds requests other than
    Produce.

    `items_max` bounds the list entries of one request (for APIs of a higher `item_weight`, a part
    of it).
    """

    def __init__(
        self,
        broker: Broker,
        waiting: Purgatory,
        client_log: ClientLog,
        lookup: Callable[[int, int], handler_table.ApiHandler] = handler_table.lookup,
        *,
        plain_bytes_max: int = PLAIN_BYTES_MAX_DEFAULT,
        items_max: int = ITEMS_MAX_DEFAULT,
        hooks: BrokerHooks | None = None,
    ) -> None:
        self._broker = broker
        self._waiting = waiting
        self._client_log = client_log
        self._lookup = lookup
        self._plain_bytes_max = plain_bytes_max
        self._items_max = items_max
        self._hooks = hooks
        self._routes: dict[tuple[int, int], Route] = {}
        self._counted_routes: dict[tuple[int, int], Route] = {}

    def start(self, frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        """Decode one request and hand it to its handler; None is an answer too: nothing is to be
        sent.

        The handler may write into `frame` (offsets into batches); nothing that it keeps refers to
        it afterwards. Raises: MalformedMessage, UnsupportedVersion, TooManyItems: this can't be
        answered, the connection is to be closed.
        """
        if len(frame) < KEY_AND_VERSION.size:
            raise MalformedMessage(f"expected a request with a key and a version, found {len(frame)} bytes")
        key_and_version = KEY_AND_VERSION.unpack_from(frame)
        if len(frame) > self._plain_bytes_max and key_and_version[0] != PRODUCE_KEY:
            # its many small parts would take many times its size once decoded
            bound = f"at most {self._plain_bytes_max} bytes (kqueue.request.max.bytes)"
            raise MalformedMessage(f"expected {bound} for a request without records, found {len(frame)}")
        route = self._routes.get(key_and_version) or self._find(*key_and_version)
        if len(frame) > route.items_max:
            route = self._counted_routes.get(key_and_version) or self._count_items(route)
        header, position = route.read_header(frame, 0)
        version, client_id = header.api_version, header.client_id
        hooks, note = self._hooks, None
        if hooks is not None and hooks.record is not None:
            note = hooks.record(frame, header, connection.address)
        # what is left over after the body is ignored, as Kafka does: librdkafka's Metadata for all
        # topics leaves 3 bytes
        try:
            request, _ = route.read(frame, position)
        except TooManyItems as error:
            return self._refuse_items(route, header.correlation_id, error, connection)
        call = connection.call
        if call is None or call.api_version != version or call.client_id != client_id:
            call = RequestContext(
                self._broker, version, client_id, connection.client_host, connection.listener, connection
            )
            if client_id is None or len(client_id) <= CLIENT_ID_KEPT_MAX:
                connection.call = call
        if hooks is not None and hooks.requests:
            return self._show(InterceptedRequest(route, header.correlation_id, request, call, connection, note), frame)
        try:
            result = route.handle(request, call)
        except Exception as error:
            result = self._refuse(route, request, error, connection)
        if result is None:
            return None
        if isinstance(result, DelayedOperation):
            return self._wait(route, header.correlation_id, request, result, connection, note)
        return self._encode(route, header.correlation_id, request, result, connection, note)

    def _find(self, api_key: int, version: int) -> Route:
        served = self._lookup(api_key, version)
        low, high = served.versions
        read_header = reader(RequestHeader, request_header_version(api_key, version))
        if low <= version <= high:
            read, version_written = reader(served.api.request_class, version), version
        else:
            # only ApiVersions comes here: its body can't be known, and its answer, at version 0,
            # says what is served
            read, version_written = _read_nothing(served.api.request_class), 0
        header_tail = response_header(api_key, version_written, 0)[4:]
        write = writer(served.api.response_class, version_written)
        items_max = max(1, self._items_max // served.item_weight)
        route = Route(
            served, version, header_tail, read_header, read, served.handle, write, api_key == PRODUCE_KEY, items_max
        )
        if low <= version <= high:  # others would let a client fill the memory with versions
            self._routes[api_key, version] = route
        return route

    def _count_items(self, route: Route) -> Route:
        key = route.served.api.key, route.version
        counted = route.counted()
        if key in self._routes:
            self._counted_routes[key] = counted
        return counted

    def _encode(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        response: Any,
        connection: Connection,
        note: RequestObserver | None,
    ) -> Chunks:
        try:
            if note is not None:
                for change in note.changes:
                    response = change(response)
            chunks = _framed(route, correlation_id, response)
        except Exception as error:
            chunks = _framed(route, correlation_id, self._refuse(route, request, error, connection))
        if note is not None:
            note.answered(chunks)
        return chunks

    def _wait(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        wait: DelayedOperation[Any],
        connection: Connection,
        note: RequestObserver | None,
    ) -> DeferredResponse:
        def done(response: Any) -> None:
            try:
                chunks = (
                    self._encode(route, correlation_id, request, response, connection, note)
                    if response is not NO_RESPONSE
                    else []
                )
            except Exception as error:
                connection.cut_off(f"its {route.served.api.name} could not be answered: {error}")
                return
            if note is not None and note.drops:
                connection.cut_off(REPLY_DROPPED, level=logging.INFO)
                return
            later.finish(chunks)
            connection.answered()

        def failed(error: Exception) -> None:
            try:
                response = self._refuse(route, request, error, connection)
            except KqueueError as unanswerable:
                connection.cut_off(str(unanswerable))
            else:
                done(response)

        held = note.held if isinstance(note, InterceptedRequest) else None
        overlaps = route.overlaps and not wait.in_order
        later = held.wait_with(done, failed) if held is not None else DeferredResponse(done, failed, overlaps=overlaps)
        later.hold(self._waiting, wait)
        return later

    def _refuse_items(self, route: Route, correlation_id: int, error: TooManyItems, connection: Connection) -> Chunks:
        """Answer with INVALID_REQUEST where the response has one place for it. Elsewhere the answer
        would be as large as the request.

        Raises TooManyItems: the connection is to be closed.
        """
        api = route.served.api
        weight = route.served.item_weight
        counts = f", each entry of {api.name} counts {weight}" if weight > 1 else ""
        bound = f"expected at most {route.items_max} list entries in one {api.name} (kqueue.request.max.items={self._items_max}{counts})"
        if not has_error_code(api.response_class, route.version):
            raise TooManyItems(f"{bound}: {error}", error.excess)
        self._client_log.say(
            logging.WARNING, connection.address, "refused a request of %s: %s: %s", connection.address, bound, error
        )
        return _framed(route, correlation_id, api.response_class(error_code=code_of(error)))

    # --- with hooks

    def _show(self, asked: InterceptedRequest, frame: memoryview) -> Chunks | DeferredResponse | None:
        """Let hooks look at a request, then do what they say. One that fails is told in the log,
        and the request goes its way.
        """
        assert self._hooks is not None
        connection = asked.connection
        for hook in self._hooks.requests:
            if asked.settled:
                break
            try:
                hook(asked)
            except Exception as error:
                self._client_log.say(logging.ERROR, connection.address, "a hook failed at %s", asked.api, error=error)
        if asked.is_held:
            return asked.hold().keep(frame, self._show_again)
        if asked.cut_reason:
            connection.cut_off(asked.cut_reason, level=logging.INFO)
            return None
        answer = self._carry_out(asked)
        if asked.drops and not isinstance(answer, DeferredResponse):
            connection.cut_off(REPLY_DROPPED, level=logging.INFO)
            return None
        return answer

    def _show_again(self, asked: InterceptedRequest, frame: memoryview) -> Chunks | DeferredResponse | None:
        route = asked.route
        asked.request, _ = route.read(frame, route.read_header(frame, 0)[1])
        asked.changes.clear()
        for modifier in asked.modifiers:
            modifier(asked)
        return self._show(asked, frame)

    def _carry_out(self, asked: InterceptedRequest) -> Chunks | DeferredResponse | None:
        route, request, connection = asked.route, asked.request, asked.connection
        try:
            if asked.refusal is not None:
                raise asked.refusal
            result = route.handle(request, asked.call)
        except Exception as error:
            result = self._refuse(route, request, error, connection)
        if result is None:
            return None
        if isinstance(result, DelayedOperation):
            return self._wait(route, asked.correlation_id, request, result, connection, asked)
        return self._encode(route, asked.correlation_id, request, result, connection, asked)

    def _refuse(self, route: Route, request: Any, error: Exception, connection: Connection) -> Any:
        """The response that says what went wrong. What nobody expected is logged, with where it
        happened.
        """
        name = route.served.api.name
        if isinstance(error, TransactionsNotServed):
            self._client_log.say(
                logging.WARNING,
                connection.address,
                "transactions are not served yet: the producer with transactional.id %.100r of %s was refused",
                error.transactional_id,
                connection.address,
            )
        elif isinstance(error, StorageFailed):
            self._client_log.say(
                logging.ERROR, connection.address, "%s of %s failed: %s", name, connection.address, error
            )
        elif not isinstance(error, KqueueError):
            self._client_log.say(
                logging.ERROR,
                connection.address,
                "%s version %d of %s met an error that nobody expected",
                name,
                route.version,
                connection.address,
                error=error,
            )
        return route.served.error_response(request, route.version, error)


def _read_nothing(request_class: type) -> Callable[[memoryview, int], tuple[Any, int]]:
    return lambda frame, position: (request_class(), len(frame))


def _framed(route: Route, correlation_id: int, response: Any) -> Chunks:
    """The whole answer, in as few chunks as its regions allow. Raises UnencodableMessage: it is too
    large, or a value can't be written.
    """
    written: Chunks = []
    route.write(response, written)
    try:
        body: Chunks = [b"".join(written)]  # type: ignore[arg-type]
        size = 4 + len(route.header_tail) + len(body[0])
    except TypeError:
        body = _joined_between_regions(written)
        size = 4 + len(route.header_tail) + sum(map(len, body))
    if size > RESPONSE_SIZE_MAX:
        raise UnencodableMessage(
            f"a response has at most {RESPONSE_SIZE_MAX} bytes, this one of {route.served.api.name} has {size}"
        )
    return [SIZE_AND_CORRELATION.pack(size, correlation_id) + route.header_tail, *body]


def _joined_between_regions(written: Chunks) -> Chunks:
    joined: Chunks = []
    run: list[bytes | bytearray | memoryview] = []
    for chunk in written:
        if isinstance(chunk, MEMORY):
            run.append(chunk)
            continue
        if run:
            joined.append(b"".join(run))
            run.clear()
        joined.append(chunk)
    if run:
        joined.append(b"".join(run))
    return joined
