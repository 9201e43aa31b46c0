"""Serves one request: header, handler table, reader, handler, writer. From the bytes of a request
to the bytes of its response.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kqueue.api import handler_table
from kqueue.api.errors import code_of, is_expected, mark_logged
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_RESPONSE
from kqueue.base import events
from kqueue.base.errors import (
    AnswerNotExpected,
    KqueueError,
    MalformedMessage,
    StorageFailed,
    TooManyItems,
    UnencodableMessage,
)
from kqueue.base.settings import MiB
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.client_log import ClientLog
from kqueue.network.contract import Chunks, Connection
from kqueue.network.responses import DeferredResponse
from kqueue.network.send_queue import MEMORY
from kqueue.schema import counted_reader, reader, writer
from kqueue.wire.headers import RequestHeader, has_error_code, request_header_version, response_header

if TYPE_CHECKING:
    from kqueue.api.request_logger import RequestLogger
    from kqueue.api.request_meter import RequestMeter
    from kqueue.broker.access.client_quotas import ClientQuotas
    from kqueue.broker.broker import Broker
    from kqueue.network.quota_gate import QuotaGate

KEY_AND_VERSION: Final = struct.Struct(">hh")
"""The first bytes of every request; the version of the rest of its header depends on them."""
SIZE_AND_CORRELATION: Final = struct.Struct(">Ii")
"""The first bytes of every response: its size without these four bytes, and the correlation id."""
RESPONSE_SIZE_MAX: Final = 2**31 - 1
PRODUCE_KEY: Final = 0
CLIENT_ID_KEPT_MAX = 256
"""Characters of a client id that a connection keeps between requests. With client ids of 32 KB,
idle connections would hold hundreds of MB.
"""
PLAIN_BYTES_MAX_DEFAULT = 16 * MiB
ITEMS_MAX_DEFAULT = 200_000


class Route(NamedTuple):
    """Reader, handler and writer of one API at one version, looked up once.

    `overlaps`: see `DeferredResponse`. `items_max`: how many items (see `schema.counted_reader`)
    one request may hold. A request of at most as many bytes needs no counting.
    """

    served: handler_table.ApiHandler
    version: int
    header_tail: bytes
    read_header: Callable[[memoryview, int], tuple[RequestHeader, int]]
    read: Callable[[memoryview, int], tuple[Any, int]]
    handle: Callable[[Any, RequestContext], Any]
    write: Callable[[Any, list[Any]], None]
    overlaps: bool
    items_max: int


class Dispatcher:
    """Serves requests: `start` is called for each frame, on the owner thread.

    Args:
        lookup: the handler table; raises UnsupportedVersion.
        plain_bytes_max: size limit in bytes of requests other than Produce.
        items_max: limit on the list entries of one request; APIs with a higher `item_weight` get a
            part of it.

    The other methods are the steps of `start`, for `interception.InterceptingDispatcher`.
    """

    def __init__(
        self,
        broker: Broker,
        purgatory: Purgatory,
        client_log: ClientLog,
        lookup: Callable[[int, int], handler_table.ApiHandler] = handler_table.lookup,
        *,
        plain_bytes_max: int = PLAIN_BYTES_MAX_DEFAULT,
        items_max: int = ITEMS_MAX_DEFAULT,
    ) -> None:
        self._broker = broker
        self._purgatory = purgatory
        self._client_log = client_log
        self._lookup = lookup
        self._plain_bytes_max = plain_bytes_max
        self._items_max = items_max
        self.gate: QuotaGate | None = None  # while some quota is set
        self.request_logger: RequestLogger | None = None  # while requests are logged
        self._meter: RequestMeter | None = None  # while metrics are exported
        self._routes: dict[tuple[int, int], Route] = {}
        self._counted_routes: dict[tuple[int, int], Route] = {}

    def bound_clients(self, quotas: ClientQuotas) -> None:
        """Count what clients use, from the next request on, if some quota bounds them; else no
        more.
        """
        if quotas.is_active == (self.gate is not None):
            return
        from kqueue.network.quota_gate import QuotaGate  # on use: most brokers have no quotas

        self.gate = QuotaGate(quotas) if quotas.is_active else None
        # Routes hold their handler, with the gate around it or without.
        self._routes.clear()
        self._counted_routes.clear()

    def count(self, meter: RequestMeter) -> None:
        """Let `meter` count the requests from now on."""
        self._meter = meter
        self._routes.clear()
        self._counted_routes.clear()

    def log_requests(self, request_logger: RequestLogger | None) -> None:
        """Let it write lines about requests from now on; None: no more."""
        self.request_logger = request_logger
        self._routes.clear()
        self._counted_routes.clear()

    def start(self, frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        """Decode one request and call its handler.

        The handler may write into `frame` (offsets into batches). Nothing that it keeps refers to
        `frame` afterwards.

        Returns: the encoded response, a deferred one, or None: there is no response (acks=0).
        Raises: MalformedMessage, UnsupportedVersion, TooManyItems: no response is possible; the
            caller closes the connection.
        """
        if self.gate is not None:
            self.gate.begin(len(frame))
        if self.request_logger is not None:
            self.request_logger.begin(frame, connection)
        # The route is chosen by four bytes, and holds all that depends on API and version only:
        # compiled readers and writers, the handler, the response header. So a request costs one
        # look-up.
        route = self.route_of(frame)
        header, position = route.read_header(frame, 0)
        # bytes after the body are ignored, as in Kafka: librdkafka's Metadata for all topics leaves
        # 3 bytes
        try:
            request, _ = route.read(frame, position)
        except TooManyItems as error:
            return self.refuse_items(route, header.correlation_id, error, connection)
        # The context of the connection's last request serves again where nothing in it differs.
        call = connection.call
        if call is None or call.api_version != header.api_version or call.client_id != header.client_id:
            call = self.new_call(header, connection)
        try:
            result = route.handle(request, call)
        except Exception as error:
            # The request was decoded, so it has a response of its own shape: every error of a
            # handler is answered, and the connection goes on.
            result = self.error_response(route, request, error, connection)
        if result is None:
            return None
        if isinstance(result, DelayedOperation):
            encode = partial(self.encode, route, header.correlation_id, request, connection)
            return self.defer(route, request, result, connection, encode)
        return self.encode(route, header.correlation_id, request, connection, result)

    def route_of(self, frame: memoryview) -> Route:
        """Return the route of a request, after the checks that need no decoding.

        Raises: MalformedMessage: the frame is too short or too long. UnsupportedVersion.
        """
        if len(frame) < KEY_AND_VERSION.size:
            raise MalformedMessage(f"expected a request with a key and a version, found {len(frame)} bytes")
        key_and_version = KEY_AND_VERSION.unpack_from(frame)
        if len(frame) > self._plain_bytes_max and key_and_version[0] != PRODUCE_KEY:
            # its many small parts would take many times its size once decoded
            bound = f"at most {self._plain_bytes_max} bytes (kqueue.request.max.bytes)"
            raise MalformedMessage(f"expected {bound} for a request without records, found {len(frame)}")
        route = self._routes.get(key_and_version) or self._make_route(*key_and_version)
        # An item takes a byte at least. Shorter requests can't have too many, and are read without
        # counting.
        if len(frame) > route.items_max:
            route = self._counted_routes.get(key_and_version) or self._count_items(route)
        return route

    def new_call(self, header: RequestHeader, connection: Connection) -> RequestContext:
        """Return the context of a request, and keep it for the next request of its connection."""
        client_id = header.client_id
        call = RequestContext(
            self._broker,
            header.api_version,
            client_id,
            connection.client_host,
            connection.listener,
            connection,
            connection.throttle,
            connection.principal,
        )
        # Kept for as long as the connection: a client id may have 32 KB, and connections are many.
        if client_id is None or len(client_id) <= CLIENT_ID_KEPT_MAX:
            connection.call = call
        return call

    def encode(self, route: Route, correlation_id: int, request: Any, connection: Connection, response: Any) -> Chunks:
        """Return the encoded response; that of an error where `response` can't be encoded.

        Raises: KqueueError: the request has no error response.
        """
        if response is NO_RESPONSE:
            return []
        try:
            return _framed(route, correlation_id, response)
        except Exception as error:
            # A response too large to be framed, say. The client gets an error, not silence.
            return _framed(route, correlation_id, self.error_response(route, request, error, connection))

    def defer(
        self,
        route: Route,
        request: Any,
        operation: DelayedOperation[Any],
        connection: Connection,
        encode: Callable[[Any], Chunks],
        held: DeferredResponse | None = None,
    ) -> DeferredResponse:
        """Let `operation` wait in the purgatory, and return its response to come.

        Args:
            encode: encodes the response that the operation results in.
            held: the deferred response to use; None: a new one.
        """

        def done(response: Any) -> None:
            try:
                chunks = encode(response)
            except Exception as error:
                connection.cut_off(f"its {route.served.api.name} could not be answered: {error}")
                return
            deferred.finish(chunks)
            connection.response_ready()

        def failed(error: Exception) -> None:
            try:
                response = self.error_response(route, request, error, connection)
            except KqueueError as unanswerable:
                connection.cut_off(str(unanswerable))
            else:
                done(response)

        if held is None:
            deferred = DeferredResponse(done, failed, overlaps=route.overlaps and not operation.in_order)
        else:
            deferred = held
            deferred.set_callbacks(done, failed)
        deferred.api = route.served.api.name
        deferred.watch(self._purgatory, operation)
        return deferred

    def error_response(self, route: Route, request: Any, error: Exception, connection: Connection) -> Any:
        """Return the response that reports `error`. Errors of the storage and unexpected ones are
        logged, the latter with a traceback.

        Raises: KqueueError: the request has no error response.
        """
        name = route.served.api.name
        if isinstance(error, StorageFailed):
            self._client_log.log(
                events.REQUEST_STORAGE_FAILED,
                connection.address,
                "%s of %s failed: %s",
                api=name,
                client=connection.address,
                error=error,
            )
        elif not is_expected(error) and not isinstance(error, AnswerNotExpected):
            mark_logged(error)
            self._client_log.log(
                events.REQUEST_FAILED,
                connection.address,
                "%s version %d of %s failed with an unexpected error",
                api=name,
                version=route.version,
                client=connection.address,
                exc_info=error,
            )
        return route.served.error_response(request, route.version, error)

    def refuse_items(self, route: Route, correlation_id: int, error: TooManyItems, connection: Connection) -> Chunks:
        """Return INVALID_REQUEST where the response has one error for the whole request. Elsewhere
        the response would be as large as the request.

        Raises: TooManyItems: the caller closes the connection.
        """
        api = route.served.api
        weight = route.served.item_weight
        counts = f", each entry of {api.name} counts {weight}" if weight > 1 else ""
        bound = (
            f"expected at most {route.items_max} list entries in one {api.name} "
            f"(kqueue.request.max.items={self._items_max}{counts})"
        )
        if not has_error_code(api.response_class, route.version):
            raise TooManyItems(f"{bound}: {error}", error.excess)
        self._client_log.log(
            events.REQUEST_REFUSED,
            connection.address,
            "refused a request of %s: %s: %s",
            client=connection.address,
            bound=bound,
            error=error,
        )
        return _framed(route, correlation_id, api.response_class(error_code=code_of(error)))

    def _make_route(self, api_key: int, version: int) -> Route:
        served = self._lookup(api_key, version)
        low, high = served.versions
        read_header = reader(RequestHeader, request_header_version(api_key, version))
        if low <= version <= high:
            read, version_written = reader(served.api.request_class, version), version
        else:
            # only ApiVersions: its body can't be decoded, and its response at version 0 lists the
            # versions that are served
            read, version_written = _read_nothing(served.api.request_class), 0
        handle = served.handle if self.gate is None else self.gate.bounded(served)
        if self._meter is not None:
            handle = self._meter.measured(served, handle)
        if self.request_logger is not None:
            handle = self.request_logger.logged(served, handle)
        header_tail = response_header(api_key, version_written, 0)[4:]
        write = writer(served.api.response_class, version_written)
        items_max = max(1, self._items_max // served.item_weight)
        route = Route(served, version, header_tail, read_header, read, handle, write, api_key == PRODUCE_KEY, items_max)
        if low <= version <= high:  # other versions would let a client fill the memory with routes
            self._routes[api_key, version] = route
        return route

    def _count_items(self, route: Route) -> Route:
        key = route.served.api.key, route.version
        counted = _counted(route)
        if key in self._routes:
            self._counted_routes[key] = counted
        return counted


def _counted(route: Route) -> Route:
    """Return the route with readers that count items and raise TooManyItems."""
    items_max = route.items_max
    header = counted_reader(RequestHeader, request_header_version(route.served.api.key, route.version))
    body = counted_reader(route.served.api.request_class, route.version)
    return route._replace(
        read_header=lambda frame, position: header(frame, position, items_max),
        read=lambda frame, position: body(frame, position, items_max),
    )


def _read_nothing(request_class: type) -> Callable[[memoryview, int], tuple[Any, int]]:
    return lambda frame, position: (request_class(), len(frame))


def _framed(route: Route, correlation_id: int, response: Any) -> Chunks:
    """Return the whole encoded response, in as few chunks as its regions allow.

    Raises: UnencodableMessage: it is too large, or a value can't be written.
    """
    written: Chunks = []
    route.write(response, written)
    # Nearly all responses are in memory; `join` raises TypeError at the first region of a file.
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
