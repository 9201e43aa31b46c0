"""Interception of requests, for test brokers: request records, and faults that a test asks for.

`InterceptingDispatcher` wraps a `Dispatcher` and runs the hooks of a broker around its steps. A
served broker has no hooks: it uses the `Dispatcher` itself. All of it runs on the owner thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_RESPONSE
from kqueue.base import events
from kqueue.base.errors import KqueueError, TooManyItems
from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.client_log import ClientLog
from kqueue.network.contract import Chunks, Connection
from kqueue.network.dispatch import Dispatcher, Route
from kqueue.network.responses import DeferredResponse, StartRequest
from kqueue.storage.fault_injection import StorageHook, StorageHooks
from kqueue.wire.headers import RequestHeader

ResponseChange: TypeAlias = Callable[[Any], Any]
REPLY_DROPPED = "a hook dropped its reply"


class RequestObserver:
    """Accompanies one request until its response is encoded."""

    __slots__ = ()

    def response_encoded(self, chunks: Chunks) -> None:
        """Called with the encoded response, before it is sent. It must not change the chunks, nor
        keep their regions.
        """


class RequestRecorder(Protocol):
    """Records each request before its body is decoded. `frame` is valid during the call only. None:
    it is not of interest.
    """

    def __call__(self, frame: memoryview, header: RequestHeader, address: str) -> RequestObserver | None: ...


class InterceptedRequest:
    """One request before it is handled. A request hook calls its methods to decide what happens.

    `request` is the decoded body, valid until the hook returns. `passed` belongs to the hooks:
    those that have handled this request already, where it is shown to them again after it was held.
    """

    __slots__ = (
        "call",
        "changes",
        "connection",
        "correlation_id",
        "cut_reason",
        "drops",
        "held",
        "is_held",
        "modifiers",
        "observer",
        "passed",
        "refusal",
        "request",
        "route",
        "size",
        "version",
    )

    def __init__(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        call: RequestContext,
        connection: Connection,
        observer: RequestObserver | None,
        size: int = 0,
    ) -> None:
        """Args: size: bytes of the request, with its header."""
        self.route = route
        self.size = size
        self.version = call.api_version
        self.correlation_id = correlation_id
        self.request = request
        self.call = call
        self.connection = connection
        self.observer = observer
        self.passed: set[object] = set()
        self.changes: list[ResponseChange] = []
        self.modifiers: list[Callable[[InterceptedRequest], None]] = []
        self.drops = False
        self.refusal: KqueueError | None = None
        self.cut_reason = ""
        self.held: HeldRequest | None = None
        self.is_held = False

    @property
    def api(self) -> str:
        """The protocol's name of the API, such as ``Produce``."""
        return self.route.served.api.name

    @property
    def settled(self) -> bool:
        """Whether a hook has decided what happens. The remaining hooks are not called."""
        return self.is_held or bool(self.cut_reason) or self.refusal is not None

    def refuse(self, error: KqueueError) -> None:
        """Do not handle it; its response reports `error` for every part of the request."""
        self.refusal = error

    def modify(self, modifier: Callable[[InterceptedRequest], None]) -> None:
        """Let `modifier` change `request`, and add response changes to `changes`.

        Called at once, and again when a held request is decoded a second time.
        """
        self.modifiers.append(modifier)
        modifier(self)

    def cut(self, reason: str) -> None:
        """Do not handle it; close its connection."""
        self.cut_reason = reason

    def drop_reply(self) -> None:
        """Handle it, then close its connection in place of the response."""
        self.drops = True

    def hold(self) -> HeldRequest:
        """Delay it, and the later requests of its connection, until `HeldRequest.release`. Then the
        hooks are called again.
        """
        self.is_held = True
        if self.held is None:
            self.held = HeldRequest(self)
        return self.held


RequestHook: TypeAlias = Callable[[InterceptedRequest], None]


class HeldRequest(DeferredResponse):
    """The response to a request that is delayed before it begins."""

    __slots__ = ("_begin", "_frame", "_intercepted")

    def __init__(self, intercepted: InterceptedRequest) -> None:
        super().__init__(_not_begun, _not_begun, overlaps=intercepted.route.overlaps)
        self._intercepted = intercepted
        self._frame = bytearray()
        self._begin: Callable[[InterceptedRequest, memoryview], Chunks | DeferredResponse | None] | None = None

    def keep(
        self, frame: memoryview, begin: Callable[[InterceptedRequest, memoryview], Chunks | DeferredResponse | None]
    ) -> HeldRequest:
        """Copy the frame and pause the connection. `release` calls `begin` with the copy."""
        self._frame = bytearray(frame)
        self._begin = begin
        self._intercepted.connection.pause_requests()
        return self

    def release(self) -> None:
        """Begin the request. A second call, or one after the connection was closed, does nothing.

        Thread: the owner thread.
        """
        begin, self._begin = self._begin, None
        if begin is None:
            return
        intercepted = self._intercepted
        intercepted.is_held = False
        frame, self._frame = memoryview(self._frame), bytearray()
        try:
            response = begin(intercepted, frame)
        except Exception as error:
            intercepted.connection.cut_off(str(error))
            return
        if intercepted.is_held:
            return
        intercepted.connection.resume_requests()
        if response is not self:
            assert not isinstance(response, DeferredResponse), "a held request has one response"
            self.chunks = response or []
            intercepted.connection.response_ready()

    def cancel(self) -> None:
        """Cancel the request before or after it began."""
        self._begin = None
        super().cancel()


def _not_begun(result: Any) -> None:
    raise AssertionError("the request has not begun")


class BrokerHooks:
    """The hooks of one broker; they outlive its restarts.

    `record` is called first, then each of `requests` in order until one settles the request.
    Thread: any may add and remove hooks; requests under way are not affected.
    """

    __slots__ = ("_cancels", "_lock", "record", "requests", "storage")

    def __init__(self, record: RequestRecorder | None = None) -> None:
        self.record = record
        self.requests: tuple[RequestHook, ...] = ()
        self.storage = StorageHooks()
        self._cancels: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()

    def add(self, request: RequestHook, storage: StorageHook, cancel: Callable[[], None] | None = None) -> None:
        """Add two hooks; `cancel` undoes their effects, for `cancel_all`."""
        with self._lock:
            self._cancels += () if cancel is None else (cancel,)
            self.requests += (request,)
            self.storage.hooks += (storage,)

    def remove(self, request: RequestHook, storage: StorageHook, cancel: Callable[[], None] | None = None) -> None:
        """Remove what `add` added. A second call does nothing."""
        with self._lock:
            self._cancels = tuple(other for other in self._cancels if other != cancel)
            self.requests = tuple(other for other in self.requests if other != request)
            self.storage.hooks = tuple(other for other in self.storage.hooks if other != storage)

    def cancel_all(self) -> None:
        """Undo the effects of all hooks; they stay. Thread: any but the broker's."""
        for cancel in self._cancels:
            cancel()


class InterceptingDispatcher:
    """Runs hooks around the steps of a `Dispatcher`."""

    def __init__(self, dispatcher: Dispatcher, hooks: BrokerHooks, client_log: ClientLog) -> None:
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._client_log = client_log

    def start(self, frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        """Serve one request as `Dispatcher.start` does, with the hooks of this broker."""
        dispatcher, hooks = self._dispatcher, self._hooks
        if dispatcher.gate is not None:
            dispatcher.gate.begin(len(frame))
        if dispatcher.request_logger is not None:
            dispatcher.request_logger.begin(frame, connection)
        route = dispatcher.route_of(frame)
        header, position = route.read_header(frame, 0)
        observer = None if hooks.record is None else hooks.record(frame, header, connection.address)
        try:
            request, _ = route.read(frame, position)
        except TooManyItems as error:
            return dispatcher.refuse_items(route, header.correlation_id, error, connection)
        call = connection.call
        if call is None or call.api_version != header.api_version or call.client_id != header.client_id:
            call = dispatcher.new_call(header, connection)
        if hooks.requests:
            intercepted = InterceptedRequest(
                route, header.correlation_id, request, call, connection, observer, len(frame)
            )
            return self._run_hooks(intercepted, frame)
        encode = partial(self._encode_observed, route, header.correlation_id, request, connection, observer)
        return self._handle(route, request, call, connection, encode)

    def _run_hooks(self, intercepted: InterceptedRequest, frame: memoryview) -> Chunks | DeferredResponse | None:
        """RequestContext the hooks, then do what they decided. A hook that raises is logged and
        ignored.
        """
        connection = intercepted.connection
        for hook in self._hooks.requests:
            if intercepted.settled:
                break
            try:
                hook(intercepted)
            except Exception as error:
                self._client_log.log(
                    events.HOOK_FAILED, connection.address, "a hook failed at %s", api=intercepted.api, exc_info=error
                )
        if intercepted.is_held:
            return intercepted.hold().keep(frame, self._begin_held)
        if intercepted.cut_reason:
            connection.cut_off(intercepted.cut_reason, event=events.CONNECTION_ENDED)
            return None
        encode = partial(self._encode_intercepted, intercepted)
        response = self._handle(
            intercepted.route,
            intercepted.request,
            intercepted.call,
            connection,
            encode,
            intercepted.refusal,
            intercepted.held,
        )
        if isinstance(response, DeferredResponse) or not intercepted.drops:
            return response
        if response is None:  # nothing was encoded (acks=0)
            connection.cut_off(REPLY_DROPPED, event=events.CONNECTION_ENDED)
        return None

    def _begin_held(self, intercepted: InterceptedRequest, frame: memoryview) -> Chunks | DeferredResponse | None:
        route = intercepted.route
        if self._dispatcher.gate is not None:
            self._dispatcher.gate.begin(len(frame))
        if self._dispatcher.request_logger is not None:
            self._dispatcher.request_logger.begin(frame, intercepted.connection)
        intercepted.request, _ = route.read(frame, route.read_header(frame, 0)[1])
        intercepted.changes.clear()
        for modifier in intercepted.modifiers:
            modifier(intercepted)
        return self._run_hooks(intercepted, frame)

    def _handle(
        self,
        route: Route,
        request: Any,
        call: RequestContext,
        connection: Connection,
        encode: Callable[[Any], Chunks],
        refusal: KqueueError | None = None,
        held: HeldRequest | None = None,
    ) -> Chunks | DeferredResponse | None:
        dispatcher = self._dispatcher
        try:
            if refusal is not None:
                raise refusal
            result = route.handle(request, call)
        except Exception as error:
            result = dispatcher.error_response(route, request, error, connection)
        if result is None:
            return None
        if isinstance(result, DelayedOperation):
            return dispatcher.defer(route, request, result, connection, encode, held)
        return encode(result)

    def _encode_observed(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        connection: Connection,
        observer: RequestObserver | None,
        response: Any,
    ) -> Chunks:
        chunks = self._dispatcher.encode(route, correlation_id, request, connection, response)
        if chunks and observer is not None:
            observer.response_encoded(chunks)
        return chunks

    def _encode_intercepted(self, intercepted: InterceptedRequest, response: Any) -> Chunks:
        route, request, connection = intercepted.route, intercepted.request, intercepted.connection
        if response is not NO_RESPONSE:
            try:
                for change in intercepted.changes:
                    response = change(response)
            except Exception as error:
                response = self._dispatcher.error_response(route, request, error, connection)
        correlation_id, observer = intercepted.correlation_id, intercepted.observer
        chunks = self._encode_observed(route, correlation_id, request, connection, observer, response)
        if intercepted.drops:
            connection.cut_off(REPLY_DROPPED, event=events.CONNECTION_ENDED)
        return chunks


def with_hooks(dispatcher: Dispatcher, hooks: BrokerHooks | None, client_log: ClientLog) -> StartRequest:
    """Return the function that starts requests: the dispatcher's own where there are no hooks."""
    return dispatcher.start if hooks is None else InterceptingDispatcher(dispatcher, hooks, client_log).start
