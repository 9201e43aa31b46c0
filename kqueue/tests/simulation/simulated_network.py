"""A network in simulation: connections that carry the bytes of requests to the brokers' handlers.

Each connection keeps its order, and different ones overtake each other. Where the way from one end
to the other is cut, bytes are held until it is mended, as TCP sends them again, or the connection
is lost. Ends are brokers and clients, by number; clients have negative ones.
"""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.broker.broker import Broker
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.client_protocol.requests import RequestCodec, codec_of, decode_response
from kqueue.interbroker.contract import REQUESTS, PeerCallback
from kqueue.interbroker.errors import PeerError, PeerTimedOut, PeerUnavailable
from kqueue.network.contract import Chunks, Connection, ResponseShaper
from kqueue.network.dispatch import PRODUCE_KEY, Dispatcher, Route
from kqueue.network.peer_connections import peer_address
from kqueue.network.peer_request import PeerRequest
from kqueue.network.responses import DeferredResponse
from kqueue.schema import message_schema_of
from kqueue.security.principals import ANONYMOUS
from kqueue.tests.simulation.event_queue import EventQueue
from kqueue.wire.apis import BY_KEY

LISTENER = "PLAINTEXT"
ITEMS_MAX = 1_000_000
LENGTH_SIZE = 4
SLOW = 0.02
"""The share of messages that take up to `SLOW_MS`; the others take up to `FAST_MS`."""
SLOW_MS = 120.0
FAST_MS = 4.0
RESET_MS = 150.0
"""An end learns within this time that the other one is gone."""


class End(Protocol):
    """An end of connections: a broker's process, or a client."""

    @property
    def number(self) -> int:
        """The broker's node id, or the client's negative number."""

    def execute(self, call: Callable[[], object]) -> None:
        """Make a call as this end, unless it is gone."""


class StrictDispatcher(Dispatcher):
    """Lets unexpected errors of handlers pass, so that a simulation ends with them."""

    def error_response(self, route: Route, request: Any, error: Exception, connection: Connection) -> Any:
        if not isinstance(error, KqueueError):
            raise AssertionError(f"{route.served.api.name} failed with an unexpected error") from error
        return super().error_response(route, request, error, connection)


class ServerProcess(End, Protocol):
    """A broker's process. `answered`: connections to flush at the end of its turn."""

    broker: Broker
    dispatcher: StrictDispatcher
    answered: list[ServerConnection]


class ServerConnection:
    """The broker's end of a connection: its requests are answered in order. Implements what
    `network.contract.Connection` asks for.
    """

    client_host = "/127.0.0.1"
    listener = LISTENER
    principal = ANONYMOUS

    def __init__(self, process: ServerProcess, client: int, reply: Callable[[bytes], None]) -> None:
        self.address = f"127.0.0.1:{client}"
        self.call: RequestContext | None = None
        self._process = process
        self._reply = reply
        self._frames: deque[bytearray] = deque()
        self._unanswered: deque[DeferredResponse] = deque()
        self._closed = False

    def receive(self, frame: bytearray) -> None:
        """Take a request."""
        self._frames.append(frame)
        self._begin()

    def _begin(self) -> None:
        """Begin requests; while others wait for their answers, only what may overlap them."""
        while self._frames and not self._closed:
            frame = self._frames[0]
            if self._unanswered:
                overlaps = all(response.overlaps for response in self._unanswered)
                if not overlaps or int.from_bytes(frame[:2], "big") != PRODUCE_KEY:
                    return
            self._frames.popleft()
            answer = self._process.dispatcher.start(memoryview(frame), self)
            if isinstance(answer, DeferredResponse):
                self._unanswered.append(answer)
                if answer.chunks is not None:
                    self.response_ready()
            elif answer and not self._unanswered:
                self._reply(_joined(answer))
            elif answer:
                settled = DeferredResponse(_nothing, _nothing)
                settled.chunks = answer
                self._unanswered.append(settled)

    def response_ready(self) -> None:
        self._process.answered.append(self)

    def flush(self) -> None:
        """Send the answers that are complete."""
        while self._unanswered and (chunks := self._unanswered[0].chunks) is not None and not self._closed:
            self._unanswered.popleft()
            self._reply(_joined(chunks))
        self._begin()

    def close(self) -> None:
        """Forget the requests."""
        self._closed = True
        for response in self._unanswered:
            response.cancel()
        self._unanswered.clear()
        self._process.broker.share.connection_closed(self)

    def cut_off(self, reason: str, error: BaseException | None = None, *, event: object = None) -> NoReturn:
        raise AssertionError(f"a request was cut off: {reason}") from error

    def take_arrival_ms(self) -> float:
        """Return 0: these connections do not note it."""
        return 0.0

    def pause_requests(self) -> None:
        """Faults of the network are simulated by `Network`."""

    def resume_requests(self) -> None:
        """See `pause_requests`."""

    def throttle(self, ms: int) -> None:
        """See `pause_requests`."""

    def suspend_io(self) -> None:
        """See `pause_requests`."""

    def resume_io(self) -> None:
        """See `pause_requests`."""

    def shape_responses(self, shaper: ResponseShaper | None) -> None:
        """See `pause_requests`."""


class Network:
    """Carries messages. `cuts`: ways on which nothing arrives, as (from, to)."""

    def __init__(self, queue: EventQueue, rng: random.Random) -> None:
        self.queue = queue
        self.cuts: set[tuple[int, int]] = set()
        self._rng = rng
        self._held: dict[tuple[int, int], list[tuple[Link, Callable[[], None]]]] = {}
        self._links: dict[Link, None] = {}

    def delay_ms(self) -> float:
        """Return how long a message takes."""
        return self._rng.random() * (SLOW_MS if self._rng.random() < SLOW else FAST_MS)

    def reset_ms(self) -> float:
        """Return how long it takes to learn that the other end is gone."""
        return self._rng.random() * RESET_MS

    def open(self, source: End, target: ServerProcess) -> Link:
        """Return a new connection."""
        link = Link(self, source, target)
        self._links[link] = None
        return link

    def closed(self, link: Link) -> None:
        """Forget a connection."""
        self._links.pop(link, None)

    def carry(self, way: tuple[int, int], not_before_ms: float, link: Link, arrive: Callable[[], None]) -> float:
        """Let a message arrive. Returns when; messages after it arrive not before."""
        time_ms = max(self.queue.now_ms + self.delay_ms(), not_before_ms)

        def arrived() -> None:
            if way in self.cuts:
                self._held.setdefault(way, []).append((link, arrive))
            else:
                arrive()

        self.queue.at(time_ms, arrived)
        return time_ms

    def mend(self, *ways: tuple[int, int]) -> None:
        """End cuts. What was held arrives, or its connection is lost."""
        for way in ways:
            self.cuts.discard(way)
            lost: dict[Link, bool] = {}
            for link, arrive in self._held.pop(way, ()):
                if lost.setdefault(link, self._rng.random() < 0.5):
                    link.lose()
                else:
                    arrive()

    def reset_some(self) -> None:
        """Lose one of the connections."""
        if self._links:
            list(self._links)[int(self._rng.random() * len(self._links))].lose()

    def gone(self, process: ServerProcess) -> None:
        """Lose the connections of a process that ended."""
        for link in list(self._links):
            if link.target is process or link.source is process:
                link.lose()


class Link:
    """A connection of `source` to a broker."""

    def __init__(self, network: Network, source: End, target: ServerProcess) -> None:
        self.source = source
        self.target = target
        self.is_open = True
        self._network = network
        self._requests: deque[PeerRequest] = deque()
        self._there = (source.number, target.number)
        self._back = (target.number, source.number)
        self._there_ms = self._back_ms = 0.0
        self._server = ServerConnection(target, source.number, self._answer)
        self._count = 0

    def send(self, request: PeerRequest) -> None:
        """Send a request, whose codec is set by this."""
        self._count += 1
        request_class: Any = type(request.request)
        request.codec = codec_of_class(request_class)
        frame = bytearray(_joined(request.encoded(self._count, f"{self.source.number}")))
        del frame[:LENGTH_SIZE]
        self._requests.append(request)

        def arrive() -> None:
            if self.is_open:
                self.target.execute(lambda: self._server.receive(frame))

        self._there_ms = self._network.carry(self._there, self._there_ms, self, arrive)

    def _answer(self, response: bytes) -> None:
        def arrive() -> None:
            if self.is_open:
                self.source.execute(lambda: self._received(response))

        self._back_ms = self._network.carry(self._back, self._back_ms, self, arrive)

    def _received(self, response: bytes) -> None:
        if not self.is_open:
            return
        request = self._requests.popleft()
        frame = memoryview(response)[LENGTH_SIZE:]
        finish(request, decode_response(request.codec, frame, request.correlation_id, ITEMS_MAX))

    def lose(self) -> None:
        """End the connection; both ends learn of it later."""
        if not self.is_open:
            return
        self.is_open = False
        self._network.closed(self)
        queue, network = self._network.queue, self._network
        queue.after(network.reset_ms(), lambda: self.target.execute(self._server.close))
        queue.after(network.reset_ms(), lambda: self.source.execute(self._lost))

    def _lost(self) -> None:
        while self._requests:
            finish(self._requests.popleft(), PeerUnavailable("the connection was lost", sent=True))


class NetworkPeers:
    """The other brokers, as a process reaches them. Implements `Peers`.

    Args: target: returns the process of a broker that runs; None: it does not.
    """

    def __init__(self, network: Network, process: ServerProcess, target: Callable[[int], ServerProcess | None]) -> None:
        self._network = network
        self._process = process
        self._target = target
        self._links: dict[tuple[int, str], tuple[int, Link]] = {}

    def send(
        self, node_id: int, request: object, done: PeerCallback, *, timeout_ms: float, channel: str = REQUESTS
    ) -> Callable[[], None]:
        """See `Peers.send`."""
        broker = self._process.broker
        pending = PeerRequest(request, done, broker.scheduler.clock.monotonic_ms() + timeout_ms)
        assert isinstance(broker.metadata.cluster, ClusterBrokers)
        address = peer_address(broker.metadata.cluster, node_id)
        key = (node_id, channel)
        epoch, link = self._links.get(key, (-1, None))
        if link is not None and (not link.is_open or address is None or address.epoch != epoch):
            link.lose()
            link = None
        if link is None:
            target = self._target(node_id)
            if address is None or target is None:
                return self._refuse(pending)
            link = self._network.open(self._process, target)
            self._links[key] = (address.epoch, link)
        opened = link

        def late() -> None:
            if pending.pending:
                opened.lose()
                finish(pending, PeerTimedOut("no response in time", sent=True))

        broker.scheduler.timers.at(pending.deadline_ms, late)
        link.send(pending)
        return pending.cancel

    def _refuse(self, pending: PeerRequest) -> Callable[[], None]:
        error = PeerUnavailable("the broker does not run")
        delay_ms = self._network.delay_ms()
        self._network.queue.after(delay_ms, lambda: self._process.execute(lambda: finish(pending, error)))
        return pending.cancel

    def forget(self, node_id: int) -> None:
        """See `Peers.forget`."""
        for (known, channel), (_, link) in list(self._links.items()):
            if known == node_id:
                del self._links[known, channel]
                link.lose()


def finish(request: PeerRequest, outcome: Any | PeerError) -> None:
    """Call back, once; an error of the caller passes."""
    done, request._done = request._done, None
    if done is not None:
        done(outcome)


@functools.cache
def codec_of_class(request_class: Any) -> RequestCodec:
    """Return the codec of a request's highest version that is served."""
    key = message_schema_of(request_class).api_key
    assert key is not None
    api = BY_KEY[key]
    stable = api.versions[1] - api.unstable
    return codec_of(api, handler_table.lookup(key, stable).versions[1])


def _joined(chunks: Chunks) -> bytes:
    return b"".join(chunk.read() if getattr(chunk, "is_region", False) else bytes(chunk) for chunk in chunks)  # type: ignore[union-attr, arg-type]


def _nothing(_: object) -> None:
    pass
