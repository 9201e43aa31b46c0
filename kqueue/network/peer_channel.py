"""One connection to another broker: opened on first use, opened again after a failure.

    CLOSED -> RESOLVING -> CONNECTING -> HANDSHAKING -> NEGOTIATING -> AUTHENTICATING <-> OPEN
                 (a job)                    (TLS)       (ApiVersions)      (SASL)

HANDSHAKING and AUTHENTICATING are left out where the listener of other brokers asks for neither.
A failure in any state leads to CLOSED, and fails all requests. The next attempt is a backoff later,
and only if a request waits. Responses come in the order of their requests.

A session with an end authenticates again, before the first request that is sent in its last tenth.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base import events
from kqueue.base.errors import KqueueError, MalformedMessage
from kqueue.base.timers import Timer
from kqueue.client_protocol.requests import RequestCodec, codec_of, decode_response, next_correlation_id
from kqueue.client_protocol.versions import (
    API_VERSIONS_API,
    Versions,
    api_versions_request,
    older_version,
    served_versions,
)
from kqueue.interbroker.contract import PeerAddress, PeerCallback
from kqueue.interbroker.errors import (
    BadPeerResponse,
    PeerError,
    PeerIncompatible,
    PeerTimedOut,
    PeerUnavailable,
)
from kqueue.network.peer_connector import PeerConnector
from kqueue.network.peer_contract import ChannelHost, ChannelState
from kqueue.network.peer_request import PeerRequest, negotiated_codec
from kqueue.network.response_buffer import ResponseBuffer
from kqueue.network.send_queue import SendQueue
from kqueue.schema import Chunk
from kqueue.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from kqueue.network.peer_authentication import PeerAuthentication
    from kqueue.network.tls_socket import TlsSocket

CONNECT_TIMEOUT_MS = 10_000.0
"""From the look-up of a name to the first request, or for one authentication again."""
SESSION_SHARE = 0.9
"""After this part of a session's lifetime, or a jitter less, it authenticates again (KIP-368)."""
BACKOFF_FIRST_MS = 50.0
BACKOFF_MAX_MS = 1000.0
BACKOFF_JITTER = 0.2
"""A backoff is up to this part shorter or longer, so that brokers do not connect in step."""
IN_FLIGHT_MAX = 5
"""So many requests are sent before the first is answered; others wait here."""
WAITING_MAX = 1000
RESPONSE_ITEMS_MAX = 1_000_000
"""Elements of all arrays of one response."""
logger = logging.getLogger("kqueue.server")


class PeerChannel:
    """The connection of one channel to the broker `node_id` at `address`.

    Thread: that of the loop.
    """

    def __init__(self, host: ChannelHost, node_id: int, address: PeerAddress, client_id: str) -> None:
        self.address = address
        self._host = host
        self._client_id = client_id
        self._node_id = node_id
        self._name = f"broker {node_id} at {address.host}:{address.port}"
        self.state = ChannelState.CLOSED
        self._waiting: deque[PeerRequest] = deque()
        self._in_flight: deque[PeerRequest] = deque()
        self._socket: socket.socket | TlsSocket | None = None
        self._connector: PeerConnector | None = None
        self._authentication: PeerAuthentication | None = None
        self._authenticate_again_ms: float | None = None  # None: the session has no end
        self._output: SendQueue
        self._input: ResponseBuffer
        self._reading = False
        self._served: dict[int, Versions] = {}
        self._codecs: dict[type, RequestCodec] = {}
        self._correlation_id = 0
        self._attempt = 0  # counts connections, so that a late callback finds that it is late
        self._failures = 0  # since ApiVersions was last answered
        self._next_attempt_ms = 0.0
        self._connect_timer: Timer | None = None  # end of the attempt, or of the backoff
        self._deadline_timer: Timer | None = None

    # --- requests

    def send(self, request: object, done: PeerCallback, timeout_ms: float) -> Callable[[], None]:
        """See `Peers.send`."""
        pending = PeerRequest(request, done, self._host.clock.monotonic_ms() + timeout_ms)
        if len(self._waiting) >= WAITING_MAX:
            self._fail_soon(pending, PeerUnavailable(f"{self._name}: {WAITING_MAX} requests wait for it already"))
            return pending.cancel
        self._waiting.append(pending)
        self._watch_deadline(pending.deadline_ms)
        if self.state is ChannelState.OPEN:
            self._send_waiting()
        elif self.state is ChannelState.CLOSED and self._connect_timer is None:
            self._connect_after_backoff()
        return pending.cancel

    def _send_waiting(self) -> None:
        again_ms = self._authenticate_again_ms
        # Before the session ends, as its end closes the connection and fails all requests
        # (KIP-368).
        if again_ms is not None and self._host.clock.monotonic_ms() >= again_ms:
            self._authenticate()
            return
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            request = self._waiting.popleft()
            if not request.pending:
                continue
            try:
                request.codec = self._codec(type(request.request))
                chunks = self._encoded(request)
            except PeerError as error:
                self._fail_soon(request, error)
                continue
            except KqueueError as error:
                self._fail_soon(request, PeerIncompatible(f"{self._name}: the request can't be encoded: {error}"))
                continue
            self._in_flight.append(request)
            self._output.add(chunks)
        self._output.flush()

    def _encoded(self, request: PeerRequest) -> list[Chunk]:
        self._correlation_id = next_correlation_id(self._correlation_id)
        return request.encoded(self._correlation_id, self._client_id)

    def _codec(self, request_class: type) -> RequestCodec:
        """Raises PeerIncompatible."""
        codec = self._codecs.get(request_class)
        # Once for each API and connection: a broker that was upgraded has closed the connection.
        if codec is None:
            codec = self._codecs[request_class] = negotiated_codec(request_class, self._served, self._name)
        return codec

    def _fail_soon(self, request: PeerRequest, error: PeerError) -> None:
        self._host.loop.call_soon(request.finish, error)

    # --- deadlines

    def _watch_deadline(self, deadline_ms: float) -> None:
        timer = self._deadline_timer
        if timer is not None and timer.pending:
            if timer.deadline_ms <= deadline_ms:
                return
            timer.cancel()
        self._deadline_timer = self._host.timers.at(deadline_ms, self._check_deadlines)

    def _check_deadlines(self) -> None:
        now_ms = self._host.clock.monotonic_ms()
        late = next((request for request in self._in_flight if request.deadline_ms <= now_ms), None)
        # Responses come in order: behind a late one all others wait, so the connection ends. The
        # late request is taken out first, as it alone gets this error.
        if late is not None:
            error = PeerTimedOut(f"{self._name}: no response to {late.codec.api.name} in time", sent=True)
            self._in_flight.remove(late)
            self._fail(str(error))
            late.finish(error)
            return
        for request in [each for each in self._waiting if each.deadline_ms <= now_ms]:
            self._waiting.remove(request)
            request.finish(PeerTimedOut(f"{self._name}: no connection in time ({self.state.value})"))
        remaining = [request.deadline_ms for request in (*self._in_flight, *self._waiting)]
        if remaining:
            self._watch_deadline(min(remaining))

    # --- connecting

    def _connect_after_backoff(self) -> None:
        if self._host.clock.monotonic_ms() >= self._next_attempt_ms:
            self._connect()
        else:
            self._connect_timer = self._host.timers.at(self._next_attempt_ms, self._connect)

    def _connect(self) -> None:
        self._connect_timer = None
        # No request waits any more. A broker that is gone for good is not tried for ever.
        if not any(request.pending for request in self._waiting):
            self._waiting.clear()
            return
        self._attempt += 1
        self._limit_attempt("no connection")
        self._connector = PeerConnector(
            self._host, self.address, entered=self._entered, done=self._begin, failed=self._fail
        )
        self._connector.start()

    def _entered(self, state: ChannelState) -> None:
        self.state = state

    def _limit_attempt(self, what: str) -> None:
        deadline_ms = self._host.clock.monotonic_ms() + CONNECT_TIMEOUT_MS
        self._connect_timer = self._host.timers.at(
            deadline_ms, lambda: self._fail(f"{what} within {CONNECT_TIMEOUT_MS / 1000:g} s ({self.state.value})")
        )

    def _begin(self, sock: socket.socket | TlsSocket) -> None:
        """Send requests over a connection, whose TLS handshake is done where there is one."""
        self._connector, self._socket = None, sock
        host = self._host
        self._output = SendQueue(sock, host.loop, host.jobs, failed=self._fail, drained=_nothing)
        self._input = ResponseBuffer(host.received, host.budget, self, host.release, host.response_bytes_max)
        self._start_reading()
        self.state = ChannelState.NEGOTIATING
        self._ask_versions(API_VERSIONS_API.versions[1])

    def _ask_versions(self, version: int) -> None:
        codec = codec_of(API_VERSIONS_API, version)
        self._ask(api_versions_request(), codec, lambda response: self._negotiated(response, version))

    def _ask(self, request: object, codec: RequestCodec, answered: PeerCallback) -> None:
        """Send a request of the connection's own; the attempt has a timer of its own."""
        asked = PeerRequest(request, answered, float("inf"))
        asked.codec = codec
        self._output.add(self._encoded(asked))
        self._in_flight.append(asked)
        self._output.flush()

    def _negotiated(self, response: ApiVersionsResponse | PeerError, version: int) -> None:
        if isinstance(response, PeerError) or self.state is not ChannelState.NEGOTIATING:
            return
        older = older_version(response, version)
        if older is not None:
            self._ask_versions(older)
            return
        if response.error_code:
            self._fail(f"it refuses ApiVersions with error {response.error_code}")
            return
        self._served = served_versions(response)
        if self._host.security is None or self._host.security.login is None:
            self._open()
        else:
            self._authenticate()

    def _open(self) -> None:
        self._cancel_connect_timer()
        self.state = ChannelState.OPEN
        if self._failures:
            events.PEER_CONNECTED.log(logger, "connected to %s again", peer=self._name)
            self._failures = 0
        self._send_waiting()

    # --- authentication

    def _authenticate(self) -> None:
        """Authenticate; requests wait meanwhile. Those that were sent before are answered first."""
        host = self._host
        assert host.security is not None
        if self.state is ChannelState.OPEN:
            self._limit_attempt("no authentication again")
        self.state = ChannelState.AUTHENTICATING
        from kqueue.network.peer_authentication import PeerAuthentication  # on use

        self._authentication = PeerAuthentication(
            host.security, host.jobs, self._ask_to_authenticate, done=self._authenticated, failed=self._fail
        )
        self._authentication.start()

    def _ask_to_authenticate(self, request: object, answered: PeerCallback) -> None:
        try:
            self._ask(request, self._codec(type(request)), answered)
        except PeerError as error:
            self._fail(f"it has no SASL: {error}")

    def _authenticated(self, lifetime_ms: int) -> None:
        self._authentication = None
        host = self._host
        share = SESSION_SHARE - host.rng.uniform(0, 0.1)
        self._authenticate_again_ms = host.clock.monotonic_ms() + lifetime_ms * share if lifetime_ms else None
        self._open()

    # --- responses

    def resume(self) -> None:
        """Read again: memory for responses is free."""
        if self._socket is not None and self.state in _CONNECTED:
            self._start_reading()

    def _start_reading(self) -> None:
        if not self._reading and self._socket is not None:
            self._reading = True
            self._host.loop.add_reader(self._socket, self._readable)
            self._read_pending()

    def _stop_reading(self) -> None:
        if self._reading and self._socket is not None:
            self._reading = False
            self._host.loop.remove_reader(self._socket)

    def _read_pending(self) -> None:
        """Read what TLS has decrypted already, of which the selector knows nothing."""
        sock = self._socket
        if sock is not None and not isinstance(sock, socket.socket) and self._reading and sock.pending():
            self._host.loop.call_soon(self._read_more, self._attempt)

    def _read_more(self, attempt: int) -> None:
        if self._reading and self._attempt == attempt:
            self._readable()

    def _readable(self) -> None:
        sock, input_ = self._socket, self._input
        assert sock is not None
        if not input_.may_read():
            self._stop_reading()
            return
        try:
            count = sock.recv_into(input_.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(_reason(error))
            return
        if not count:
            self._fail("it ended the connection in the middle of a response" if input_.has_partial else None)
            return
        input_.added(count)
        attempt = self._attempt
        try:
            while (frame := input_.next_frame()) is not None:
                self._respond(frame)
                # The receiver may have closed this connection, and even opened another: what is
                # left in the buffer belongs to neither.
                if self._socket is not sock or self._attempt != attempt:
                    return  # closed by the response's receiver
        except MalformedMessage as error:
            self._fail(f"it sent what is no response: {error}", bad=True)
            return
        except OSError as error:
            self._fail(f"there is no memory for its response: {error}")
            return
        if self.state is ChannelState.OPEN and self._waiting:
            self._send_waiting()
        self._read_pending()

    def _respond(self, frame: memoryview) -> None:
        """Raises MalformedMessage: it is not the response to the oldest request."""
        if not self._in_flight:
            raise MalformedMessage("expected nothing, no request is unanswered")
        request = self._in_flight[0]
        response = decode_response(request.codec, frame, request.correlation_id, RESPONSE_ITEMS_MAX)
        # After the decoding: a response that can't be read fails its own request with the others.
        self._in_flight.popleft()
        request.finish(response)

    # --- the end

    def _fail(self, reason: str | None, *, bad: bool = False) -> None:
        """Close the connection and fail all requests; log it once until it is open again.

        Args:
            reason: None: it was ended between responses, which is logged only if requests fail.
            bad: the broker's bytes are wrong.
        """
        # Collected before the queues are cleared. Whether a request was sent tells its caller if it
        # may have been executed.
        failed = [request for request in (*self._in_flight, *self._waiting) if request.pending]
        sent = {id(request) for request in self._in_flight}
        self._disconnect()
        if reason is not None or failed:
            text = reason or "it ended the connection"
            if not self._failures:
                event = events.PEER_LEFT if self._host.is_leaving(self._node_id) else events.PEER_FAILED
                address = f"{self.address.host}:{self.address.port}"
                self._host.log.log(event, address, "%s: %s", peer=self._name, reason=text)
            self._back_off()
            for request in failed:
                self._fail_soon(request, self._error(f"{self._name}: {text}", id(request) in sent, bad))

    def _error(self, message: str, sent: bool, bad: bool) -> PeerError:
        return BadPeerResponse(message) if bad and sent else PeerUnavailable(message, sent=sent)

    def _back_off(self) -> None:
        backoff_ms = min(BACKOFF_FIRST_MS * 2.0 ** min(self._failures, 10), BACKOFF_MAX_MS)
        # So that a broker that comes back is not met by all others in the same moment.
        jitter = 1 + self._host.rng.uniform(-BACKOFF_JITTER, BACKOFF_JITTER)
        self._next_attempt_ms = self._host.clock.monotonic_ms() + backoff_ms * jitter
        self._failures += 1

    def _disconnect(self) -> None:
        self._attempt += 1
        self._cancel_connect_timer()
        self.state = ChannelState.CLOSED
        self._authenticate_again_ms = None
        if self._connector is not None:
            self._connector.close()
            self._connector = None
        if self._authentication is not None:
            self._authentication.close()
            self._authentication = None
        self._in_flight.clear()
        self._waiting.clear()
        self._served, self._codecs = {}, {}
        sock = self._socket
        if sock is not None:
            self._stop_reading()
            self._output.close()
            self._input.close()
            self._socket = None
            sock.close()

    def _cancel_connect_timer(self) -> None:
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None

    def close(self, reason: str) -> None:
        """Close for good, without a log line; its requests fail with PeerUnavailable."""
        requests = [*self._in_flight, *self._waiting]
        sent = len(self._in_flight)
        self._disconnect()
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        for index, request in enumerate(requests):
            self._fail_soon(request, PeerUnavailable(f"{self._name}: {reason}", sent=index < sent))

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        if self._connector is not None:
            self._connector.close_descriptor()
        if isinstance(self._socket, socket.socket):
            self._socket.close()
        elif self._socket is not None:
            self._socket.close_descriptor()


_CONNECTED = (ChannelState.NEGOTIATING, ChannelState.AUTHENTICATING, ChannelState.OPEN)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def _nothing() -> None:
    """Nothing waits for an empty send queue."""
