"""Where others may step in: notes of what clients send, faults that a test asks for. A served
broker has no hooks at all.

A hook is shown each request before it is handled, on the owner thread, and says by the methods of
`InterceptedRequest` what becomes of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kqueue.base.errors import KqueueError
from kqueue.network.responses import Chunks, Connection, DeferredResponse
from kqueue.storage.fault_injection import StorageHook, StorageHooks
from kqueue.wire.headers import RequestHeader

if TYPE_CHECKING:
    from kqueue.api.request_context import RequestContext
    from kqueue.network.dispatch import Route

Change: TypeAlias = Callable[[Any], Any]


class RequestObserver:
    """Goes along with one request. `changes` are made to its response before it is written;
    `drops`: then nobody is to get it.
    """

    __slots__ = ()
    changes: Sequence[Change] = ()
    drops: bool = False

    def answered(self, chunks: Chunks) -> None:
        """What is sent, as it is sent: not to be changed, and its regions not to be kept."""


class RequestRecorder(Protocol):
    """Takes note of each request. `frame` is only lent, and not decoded yet: its body may be
    anything.
    """

    def __call__(self, frame: memoryview, header: RequestHeader, address: str) -> RequestObserver: ...


class InterceptedRequest(RequestObserver):
    """One request that has not been handled yet, as hooks see it.

    `request` is its decoded body, lent until the hook returns. `passed` is the hooks' own: who has
    dealt with this request already, where it is shown again after it was held.
    """

    __slots__ = ("call", "changes", "connection", "correlation_id", "cut_reason", "drops", "held", "is_held", "modifiers", "note", "passed",
                 "refusal", "request", "route", "version")  # fmt: skip

    def __init__(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        call: RequestContext,
        connection: Connection,
        note: RequestObserver | None,
    ) -> None:
        self.route = route
        self.version = call.api_version
        self.correlation_id = correlation_id
        self.request = request
        self.call = call
        self.connection = connection
        self.note = note
        self.passed: set[object] = set()
        self.changes: list[Change] = []
        self.modifiers: list[Callable[[InterceptedRequest], None]] = []
        self.drops = False
        self.refusal: KqueueError | None = None
        self.cut_reason = ""
        self.held: HeldRequest | None = None
        self.is_held = False

    @property
    def api(self) -> str:
        return self.route.served.api.name

    @property
    def settled(self) -> bool:
        """What becomes of it is decided: no other hook is asked."""
        return self.is_held or bool(self.cut_reason) or self.refusal is not None

    def refuse(self, error: KqueueError) -> None:
        """It is not handled; the answer tells of `error` at every place where it asked for
        something.
        """
        self.refusal = error

    def modify(self, modifier: Callable[[InterceptedRequest], None]) -> None:
        """Let `modifier` change `request`, and add to `changes` what is to be made of the response.

        It is called now, and again if the request is read anew because it was held.
        """
        self.modifiers.append(modifier)
        modifier(self)

    def cut(self, reason: str) -> None:
        """It is not handled, and its connection is closed."""
        self.cut_reason = reason

    def drop_reply(self) -> None:
        """It is handled; then its connection is closed in place of an answer."""
        self.drops = True

    def hold(self) -> HeldRequest:
        """It waits, and with it all that its connection sends later; after `HeldRequest.release` it is
        shown again.
        """
        self.is_held = True
        if self.held is None:
            self.held = HeldRequest(self)
        return self.held

    def answered(self, chunks: Chunks) -> None:
        if self.note is not None:
            self.note.answered(chunks)


RequestHook: TypeAlias = Callable[[InterceptedRequest], None]


class HeldRequest(DeferredResponse):
    """The answer to a request that is not even begun."""

    __slots__ = ("_again", "_asked", "_frame")

    def __init__(self, asked: InterceptedRequest) -> None:
        super().__init__(_nobody, _nobody, overlaps=asked.route.overlaps)
        self._asked = asked
        self._frame = bytearray()
        self._again: Callable[[InterceptedRequest, memoryview], Chunks | DeferredResponse | None] | None = None

    def keep(
        self, frame: memoryview, again: Callable[[InterceptedRequest, memoryview], Chunks | DeferredResponse | None]
    ) -> HeldRequest:
        """Hold the connection, until `release` has `again(asked, frame)` begin with a copy of this
        frame.
        """
        self._frame = bytearray(frame)
        self._again = again
        self._asked.connection.hold()
        return self

    def release(self) -> None:
        """Begin now. On the owner thread; twice, or after the connection has ended, is harmless."""
        again, self._again = self._again, None
        if again is None:
            return
        asked = self._asked
        asked.is_held = False
        frame, self._frame = memoryview(self._frame), bytearray()
        try:
            answer = again(asked, frame)
        except Exception as error:
            asked.connection.cut_off(str(error))
            return
        if asked.is_held:
            return
        asked.connection.let_go()
        if answer is not self:
            assert not isinstance(answer, DeferredResponse), "a held request has one answer"
            self.chunks = answer or []
            asked.connection.answered()

    def wait_with(self, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> HeldRequest:
        """It is begun, and its handler waits: from here on this is a `DeferredResponse` as any other."""
        self._done = done
        self._failed = failed
        return self

    def cancel(self) -> None:
        self._again = None
        super().cancel()


def _nobody(found: Any) -> None:
    raise AssertionError("nobody waits yet")


class BrokerHooks:
    """The hooks of one broker, which outlive its restarts. `record` is asked first, then `requests`
    in order, until one settles it.

    Adding and removing may be done from any thread; what is under way is not affected.
    """

    __slots__ = ("_cancels", "_lock", "record", "requests", "storage")

    def __init__(self, record: RequestRecorder | None = None) -> None:
        self.record = record
        self.requests: tuple[RequestHook, ...] = ()
        self.storage = StorageHooks()
        self._cancels: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()

    def add(self, request: RequestHook, storage: StorageHook, cancel: Callable[[], None] | None = None) -> None:
        """`cancel` takes back what these hooks do, for `cancel_all`; they stay."""
        with self._lock:
            self._cancels += () if cancel is None else (cancel,)
            self.requests += (request,)
            self.storage.hooks += (storage,)

    def remove(self, request: RequestHook, storage: StorageHook, cancel: Callable[[], None] | None = None) -> None:
        """Twice is harmless."""
        with self._lock:
            self._cancels = tuple(one for one in self._cancels if one != cancel)
            self.requests = tuple(one for one in self.requests if one != request)
            self.storage.hooks = tuple(one for one in self.storage.hooks if one != storage)

    def cancel_all(self) -> None:
        """Have all hooks take back what they do. From any thread but the broker's."""
        for cancel in self._cancels:
            cancel()
