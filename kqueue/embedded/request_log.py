"""`broker.requests`: the requests that clients sent to an embedded broker, for tests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kqueue.api.request_topics import RequestTopic, find_api, topic_name_of, topics_in_request
from kqueue.base.clock import Clock, monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.settings import KiB, MiB, is_secret
from kqueue.base.text import counted
from kqueue.embedded.event_loops import check_may_block
from kqueue.network.contract import Chunks
from kqueue.network.interception import RequestObserver
from kqueue.schema import decode, reader
from kqueue.wire.apis import BY_KEY, SECRET_APIS, Api
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.headers import RequestHeader, request_header_version

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

KEPT_BYTES_MAX = 64 * KiB
"""A larger request or response is listed without its body."""
SMALL_BYTES_MAX = 1 * KiB
"""Smaller requests and responses are not counted in the bytes that are kept: counting would cost
more than they do.
"""
TOPICS_SHOWN, PARTITIONS_SHOWN, CHARACTERS_SHOWN, LINES_SHOWN = 5, 10, 100, 50
COUNT_MAX = 10_000
BYTES_MAX = 16 * MiB
Answer = list[bytes | int] | bytes


class RecordedRequest(RequestObserver):
    """One request of a client. Its body and response are decoded on access.

    `time_ms`: when it arrived, by the broker's wall clock. `address`: the client's host and port.
    """

    __slots__ = ("_answer", "_frame", "_header", "_log", "address", "time_ms")

    def __init__(self, log: RequestLog, time_ms: int, header: RequestHeader, address: str, frame: bytes | int) -> None:
        """`frame`: its bytes, or only its size where they are not kept."""
        self._log = log
        self._header = header
        self._frame = frame
        self._answer: Answer | None = None
        self.time_ms = time_ms
        self.address = address

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """Return one line: time, API, client, topics and errors."""
        named = self.named
        more = f" and {counted(len(named) - TOPICS_SHOWN, 'more topic')}" if len(named) > TOPICS_SHOWN else ""
        about = f" about {'; '.join(map(_told, named[:TOPICS_SHOWN]))}{more}" if named else ""
        errors = f" -> {', '.join(self.errors)}" if self.errors else ""
        who = f"{legible(self.client_id)} ({self.address})" if self.client_id else self.address
        time = f"{self.time:%H:%M:%S}.{self.time_ms % 1000:03}"
        return f"{time} {self.api} v{self.version} of {who}{about}, {self.size} bytes{errors}"

    @property
    def time(self) -> datetime:
        """`time_ms` as a time in UTC."""
        return datetime.fromtimestamp(self.time_ms / 1000, UTC)

    @property
    def size(self) -> int:
        """Bytes of the request, with its header and without its length field."""
        return self._frame if isinstance(self._frame, int) else len(self._frame)

    @property
    def api(self) -> str:
        """The protocol's name of the API: ``Produce``."""
        return self._api.name

    @property
    def version(self) -> int:
        """Version of the API."""
        return self._header.api_version

    @property
    def client_id(self) -> str | None:
        """The client's name for itself."""
        return self._header.client_id

    @property
    def body(self) -> Any:
        """The decoded request, a new object of `kqueue.wire.messages` per access; None: it was not
        kept (see `RequestLog`).

        Raises: MalformedMessage: it can't be decoded; the broker closed its connection.
        """
        if isinstance(self._frame, int):
            return None
        frame = memoryview(bytearray(self._frame))
        _, position = reader(RequestHeader, request_header_version(self._header.api_key, self.version))(frame, 0)
        if not self._known:
            return self._api.request_class()
        return _masked(reader(self._api.request_class, self.version)(frame, position)[0])

    @property
    def named(self) -> list[RequestTopic]:
        """Topics with their partitions, as in the request; empty: none, or no body is kept."""
        try:
            body = self.body
        except KqueueError:
            return []
        broker = self._log.broker()
        return [
            RequestTopic(topic_name_of(one.topic, broker) if broker else one.topic, one.partitions)
            for one in topics_in_request(body)
        ]

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics in the request; of an unknown topic id, the id in hexadecimal."""
        return tuple(one.topic if isinstance(one.topic, str) else one.topic.hex() for one in self.named)

    @property
    def errors(self) -> tuple[str, ...]:
        """Names of the errors in its response, each once; empty: no errors, no response (yet), or
        it was not kept.
        """
        answer = self._answer
        if not answer or not self._known:
            return ()
        if isinstance(answer, list):
            answer = b"".join(bytes(part) for part in answer)  # a number stands for that many bytes of records
        codes: dict[int, None] = {}
        _collect_codes(decode(self._api.response_class, self.version, answer), codes)
        return tuple(ErrorCode(code).name for code in codes)

    @property
    def is_answered(self) -> bool:
        """Whether its response is complete, sent or dropped by a fault."""
        return self._answer is not None

    def response_encoded(self, chunks: Chunks) -> None:
        """Keep the response; see `RequestObserver`."""
        if self._header.api_key in SECRET_APIS:
            self._answer = b""
            return
        if len(chunks) == 2:
            body = chunks[1]
            if type(body) is bytes and len(body) <= SMALL_BYTES_MAX:
                self._answer = body
                return
        self._keep(chunks)

    def drop_bodies(self) -> None:
        """Drop the body and the response."""
        self._frame = self.size
        self._answer = None if self._answer is None else b""

    def _keep(self, chunks: Chunks) -> None:
        kept = [
            bytes(chunk) if isinstance(chunk, (bytes, bytearray, memoryview)) else len(chunk) for chunk in chunks[1:]
        ]
        answer = kept[0] if len(kept) == 1 and isinstance(kept[0], bytes) else kept
        size = (
            len(answer) if isinstance(answer, bytes) else sum(len(part) for part in answer if isinstance(part, bytes))
        )
        self._answer = answer if size <= KEPT_BYTES_MAX else b""
        if SMALL_BYTES_MAX < size <= KEPT_BYTES_MAX:
            self._log.count_bytes(self, size)

    @property
    def _api(self) -> Api:
        return BY_KEY[self._header.api_key]

    @property
    def _known(self) -> bool:
        return self._api.versions[0] <= self.version <= self._api.versions[1]


def _masked(body: Any) -> Any:
    """Return a request to alter settings without the values of sensitive ones."""
    for resource in getattr(body, "resources", ()):
        for config in getattr(resource, "configs", None) or ():
            if getattr(config, "value", None) and is_secret(config.name):
                config.value = "[hidden]"
    return body


class RequestLog:
    """The requests of all clients, oldest first: ``broker.requests(api="Produce",
    topic="orders")``.

    The last `count_max` are listed (10,000). Bodies and responses with secrets (`SECRET_APIS`), and
    those above 64 KiB, are not kept; of those above 1 KiB the last `bytes_max` bytes are kept (16
    MiB). They outlive restarts and a stop.

    Thread: written by the broker's thread, read by any.
    """

    def __init__(
        self, clock: Clock, broker: Callable[[], Broker | None], count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self.broker = broker
        self.bytes = 0
        self._wall_ms = clock.wall_ms
        self._bytes_max = bytes_max
        self._entries: deque[RecordedRequest] = deque(maxlen=count_max)
        self._heavy: deque[tuple[RecordedRequest, int]] = deque()
        self._changed = threading.Condition()
        self._watchers = 0

    def __call__(
        self, api: str | None = None, *, topic: str | None = None, client_id: str | None = None
    ) -> list[RecordedRequest]:
        """Return the requests that match all arguments.

        Raises: ValueError: no such API; the message suggests the nearest name.
        """
        name = None if api is None else find_api(api).name
        return [one for one in self if _matches(one, name, topic, client_id)]

    def __iter__(self) -> Iterator[RecordedRequest]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return listing(f"<{counted(len(self), 'request')} of clients>", list(self))

    def clear(self) -> None:
        """Remove all requests."""
        self._entries.clear()

    def wait_for(
        self, api: str, count: int = 1, timeout_s: float = 10, *, topic: str | None = None, client_id: str | None = None
    ) -> list[RecordedRequest]:
        """Wait until `count` requests match since the last `clear`, and return them.

        Raises:
            TimeoutError: fewer arrived; the message lists all requests.
            ValueError: no such API.
            RuntimeError: this thread runs an event loop; use ``await
                broker.aio.wait_requests("Produce")``.
        """
        if timeout_s > 0:
            check_may_block("await broker.aio.wait_requests(...)")
        deadline = monotonic_s() + timeout_s
        with self._changed:
            self._watchers += 1
            try:
                while len(requests := self(api, topic=topic, client_id=client_id)) < count:
                    if not self._changed.wait(deadline - monotonic_s()):
                        raise TimeoutError(
                            f"{len(requests)} of {count} {api} requests came within {timeout_s} s; there were: {self!r}"
                        )
                return requests
            finally:
                self._watchers -= 1

    def record(self, frame: memoryview, header: RequestHeader, address: str) -> RecordedRequest:
        """Add a request. Thread: the broker's own."""
        size = len(frame)
        is_kept = size <= KEPT_BYTES_MAX and header.api_key not in SECRET_APIS
        entry = RecordedRequest(self, self._wall_ms(), header, address, bytes(frame) if is_kept else size)
        self._entries.append(entry)
        if size > SMALL_BYTES_MAX and is_kept:
            self.count_bytes(entry, size)
        if self._watchers:
            with self._changed:
                self._changed.notify_all()
        return entry

    def count_bytes(self, entry: RecordedRequest, size: int) -> None:
        """Count the bytes that `entry` keeps, and drop those of older ones. Thread: the broker's
        own.
        """
        self._heavy.append((entry, size))
        self.bytes += size
        while self.bytes > self._bytes_max:
            oldest, size = self._heavy.popleft()
            oldest.drop_bodies()
            self.bytes -= size


def legible(text: str) -> str:
    """A client's own words as a part of a line: short, and nothing that a terminal would obey."""
    short = text if len(text) <= CHARACTERS_SHOWN else text[:CHARACTERS_SHOWN] + "..."
    return short if short.isprintable() else repr(short)


def listing(head: str, items: Sequence[object]) -> str:
    """Return `head` and one line for each of the last items."""
    left_out = len(items) - LINES_SHOWN
    return "\n".join([head, *([f"({left_out} before these)"] if left_out > 0 else []), *map(str, items[-LINES_SHOWN:])])


def _told(one: RequestTopic) -> str:
    topic = legible(one.topic) if isinstance(one.topic, str) else one.topic.hex()
    numbers = [str(number) for number in one.partitions[:PARTITIONS_SHOWN]]
    if len(one.partitions) > PARTITIONS_SHOWN:
        numbers.append("...")
    return f"{topic}[{', '.join(numbers)}]" if numbers else topic


def _matches(one: RecordedRequest, api: str | None, topic: str | None, client_id: str | None) -> bool:
    if (api is not None and one.api != api) or (client_id is not None and one.client_id != client_id):
        return False
    return topic is None or topic in one.topics


def _collect_codes(part: Any, codes: dict[int, None]) -> None:
    if isinstance(part, list):
        for item in part:
            _collect_codes(item, codes)
        return
    schema = getattr(part, "__schema__", None)
    for field in schema.fields if schema is not None else ():
        value = getattr(part, field.name)
        if field.name == "error_code":
            if value:
                codes[value] = None
        else:
            _collect_codes(value, codes)
