"""One connection to one broker, with at most one request in flight.

It begins with ApiVersions, which tells the versions that this broker supports. A response is
received into memory of its own; its records are views of that memory, so record bytes are not
copied between the socket and the caller.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kqueue.base.addresses import Address
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import MalformedMessage
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerUnreachable, ConnectionLost, IncompatibleBroker, Interrupted
from kqueue.client.options import ClientOptions
from kqueue.client.retry_policy import response_error
from kqueue.client_protocol.requests import (
    RequestCodec,
    codec_of,
    decode_response,
    encode_request,
    next_correlation_id,
)
from kqueue.client_protocol.versions import (
    API_VERSIONS_API,
    NoCommonVersion,
    Versions,
    api_versions_request,
    common_version,
    older_version,
    served_versions,
)
from kqueue.schema import Chunk, join
from kqueue.wire.apis import Api
from kqueue.wire.frame import LENGTH_SIZE, frame_size

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

FIRST_RECEIVE_BYTES = 4096
"""Bytes of the first receive, before the response size is known.

A small response is then complete; of a large one this much is copied once more.
"""
OWN_SEND_BYTES = 65536
"""Chunks of at least this size are sent as they are; smaller ones are joined."""
SHORTEST_S = 0.001
"""Replaces a timeout of 0, which a socket interprets as "do not block"."""
SESSION_SHARE = 0.9
"""After this part of a session's lifetime another connection takes its place."""
NO_SECURITY_HINT = "; a listener with TLS or SASL needs security.protocol"


class Connection:
    """A blocking connection; its constructor connects and exchanges ApiVersions.

    Args:
        deadline: of both; `options.connect_timeout_ms` may be earlier.
    Raises: BrokerUnreachable: no listener, or one that does not respond. BadAnswer: not a broker.
        IncompatibleBroker.
    Thread: one at a time.
    """

    def __init__(self, address: Address, options: ClientOptions, deadline: Deadline) -> None:
        self.address = address
        self.served: dict[int, Versions] = {}
        self._options = options
        self._correlation = 0
        self._awaited: RequestCodec | None = None
        self._first = memoryview(bytearray(FIRST_RECEIVE_BYTES))
        deadline = deadline.within(options.connect_timeout_ms)
        self._ends_s: float | None = None
        self._socket = _connect(address, options.security, deadline)
        try:
            self.served = self._ask_versions(deadline)
            if options.security is not None and options.security.login is not None:
                self._authenticate(options.security, deadline)
        except ConnectionLost as error:
            hint = "" if options.security is not None else NO_SECURITY_HINT
            raise BrokerUnreachable(
                f"{address}: something listens, but does not answer as a broker: {error}{hint}", broker=self.name
            ) from error
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Connection to {self.address}{'' if self.is_open else ', closed'}>"

    @property
    def name(self) -> str:
        """The broker's address, as errors show it."""
        return str(self.address)

    @property
    def is_open(self) -> bool:
        """Whether the socket is open."""
        return self._socket.fileno() >= 0

    @property
    def is_idle(self) -> bool:
        """Whether the connection is open and awaits no response, so it can take a request."""
        return self.is_open and self._awaited is None

    def close(self) -> None:
        """Close the socket. A second call does nothing."""
        self._socket.close()

    def interrupt(self) -> None:
        """End the connection, so that the thread that waits for a response raises ConnectionLost.

        Thread: any.
        """
        with contextlib.suppress(OSError):
            # not the method of an SSLSocket, which changes what the waiting thread uses
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def is_alive(self) -> bool:
        """Return whether the broker has not closed the connection, nor is about to end its session.
        Sends nothing.
        """
        if self._ends_s is not None and monotonic_s() >= self._ends_s:
            return False
        if self._options.security is not None:
            from kqueue.client import secure_connection

            return secure_connection.is_alive(self._socket)
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # end of stream, or unsolicited bytes

    def version(self, api: Api, versions: Versions | None = None) -> int:
        """Return the highest version of a request that both sides support.

        Args:
            versions: the lowest and highest version that the caller supports; None: those of
                kqueue.
        Raises: IncompatibleBroker: there is none.
        """
        try:
            return common_version(api, self.served, versions)
        except NoCommonVersion as error:
            raise IncompatibleBroker(f"{self.name}: {error}", broker=self.name, api=api.name) from None

    # --- requests

    def call(self, api: Api, version: int, request: object, deadline: Deadline) -> Any:
        """Send a request and return its response. Raises: as `send` and `receive`."""
        self.send(api, version, request, deadline)
        return self.receive(deadline)

    def send(self, api: Api, version: int, request: object, deadline: Deadline, *, is_answered: bool = True) -> None:
        """Send a request. `receive` must follow, unless the request has no response (acks=0).

        Raises: ConnectionLost: `sent` is False; the broker did not receive the whole request.
            UnencodableMessage, UnsupportedVersion: nothing was sent.
        """
        assert self._awaited is None, "the last answer was not received"
        self._correlation = next_correlation_id(self._correlation)
        codec = codec_of(api, version)
        chunks = encode_request(codec, request, self._correlation, self._options.client_id)
        if is_answered:
            self._awaited = codec
        try:
            for piece in _pieces(chunks):
                self._socket.settimeout(deadline.remaining_s or SHORTEST_S)
                self._socket.sendall(piece)
        except OSError as error:
            raise self._lost(f"while {api.name} was sent", error, api, sent=False) from error
        except BaseException:
            self.close()
            raise

    def receive(self, deadline: Deadline) -> Any:
        """Return the response to the last request; its records are views of the receive buffer.

        Raises: ConnectionLost: the response was late or incomplete. BadAnswer. Both close the
            connection.
        """
        assert self._awaited is not None, "nothing was asked"
        codec, api = self._awaited, self._awaited.api
        try:
            frame = self._receive_frame(deadline)
            response = decode_response(codec, frame, self._correlation, items_max=len(frame))
        except MalformedMessage as error:
            self.close()
            raise BadAnswer(
                f"{self.name}: {api.name}: what came is no answer to it ({error}); is this a broker?",
                broker=self.name,
                api=api.name,
            ) from error
        except OSError as error:
            raise self._lost(f"before {api.name} was answered", error, api, sent=True) from error
        except BaseException:
            self.close()
            raise
        self._awaited = None
        return response

    def _receive_frame(self, deadline: Deadline) -> memoryview:
        received = 0
        while received < LENGTH_SIZE:
            received += self._receive_into(self._first[received:], deadline)
        try:
            size = frame_size(self._first, 0, self._options.response_bytes_max)
        except MalformedMessage as error:
            raise MalformedMessage(f"{error}; if it may be so large, raise response_bytes_max") from None
        if received - LENGTH_SIZE > size:
            raise MalformedMessage(
                f"expected one answer of {size} bytes, found {received - LENGTH_SIZE - size} bytes more"
            )
        frame = memoryview(bytearray(size))
        position = received - LENGTH_SIZE
        frame[:position] = self._first[LENGTH_SIZE:received]
        while position < size:
            position += self._receive_into(frame[position:], deadline)
        return frame.toreadonly()

    def _receive_into(self, view: memoryview, deadline: Deadline) -> int:
        remaining_s = deadline.remaining_s
        if not remaining_s:
            raise TimeoutError(f"no answer within {deadline.timeout_ms:g} ms")
        self._socket.settimeout(remaining_s)
        received = self._socket.recv_into(view)
        if not received:
            raise ConnectionResetError("the broker hung up")
        return received

    def _lost(self, when: str, error: OSError, api: Api, *, sent: bool) -> ConnectionLost:
        self.close()
        lost = ConnectionLost(
            f"{self.name}: the connection ended {when}: {error_summary(error)}", broker=self.name, api=api.name
        )
        lost.sent = sent
        return lost

    def _authenticate(self, security: ClientSecurity, deadline: Deadline) -> None:
        from kqueue.client import secure_connection

        def call(api: Api, request: object) -> Any:
            return self.call(api, self.version(api), request, deadline)

        lifetime_ms = secure_connection.authenticate(call, self.address, security)
        if lifetime_ms:
            self._ends_s = monotonic_s() + lifetime_ms / 1000 * SESSION_SHARE

    def _ask_versions(self, deadline: Deadline) -> dict[int, Versions]:
        """Send ApiVersions and return the versions that the broker supports."""
        version: int | None = API_VERSIONS_API.versions[1]
        while version is not None:
            response = self.call(API_VERSIONS_API, version, api_versions_request(), deadline)
            version = older_version(response, version)
        if response.error_code:
            raise response_error(response.error_code, API_VERSIONS_API.name, self.name)
        return served_versions(response)


def error_summary(error: Exception) -> str:
    """An error of the operating system in words, without its number."""
    return getattr(error, "strerror", None) or str(error)


def _connect(address: Address, security: ClientSecurity | None, deadline: Deadline) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BrokerUnreachable(
            f"{address}: the host's name can't be looked up: {error}", broker=str(address)
        ) from error
    reasons = []
    for family, kind, protocol, _, sockaddr in addresses:
        try:
            connected = _connected(socket.socket(family, kind, protocol), sockaddr, deadline)
            if security is None:
                return connected
            from kqueue.client import secure_connection

            connected.settimeout(deadline.remaining_s or SHORTEST_S)
            return secure_connection.encrypted(connected, address, security)
        except (OSError, OverflowError) as error:
            reasons.append(error_summary(error))
    raise BrokerUnreachable(f"{address}: {', '.join(dict.fromkeys(reasons))}", broker=str(address))


def _connected(connection: socket.socket, sockaddr: Any, deadline: Deadline) -> socket.socket:
    try:
        connection.settimeout(deadline.remaining_s or SHORTEST_S)
        connection.connect(sockaddr)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


def _pieces(chunks: list[Chunk]) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the chunks, with small ones joined so that each is worth a system call."""
    small: list[Chunk] = []
    for chunk in chunks:
        if len(chunk) < OWN_SEND_BYTES or not isinstance(chunk, (bytes, bytearray, memoryview)):
            small.append(chunk)
            continue
        if small:
            yield join(small)
            small = []
        yield chunk
    if small:
        yield join(small)


class ConnectionPool:
    """One connection per broker address, opened on first use and reopened after a failure."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._open: dict[Address, Connection] = {}
        self._is_interrupted = False

    def to(self, address: Address, deadline: Deadline) -> Connection:
        """Return the connection to this address. Raises: as `Connection`; Interrupted."""
        self._check_not_interrupted(address)
        connection = self._open.get(address)
        if connection is not None:
            if connection.is_idle and connection.is_alive():
                return connection
            connection.close()
            del self._open[address]
        connection = self._open[address] = Connection(address, self._options, deadline)
        self._check_not_interrupted(address)  # while it was opened, `interrupt` did not see it
        return connection

    def interrupt(self) -> None:
        """Have the call under way fail, and every later one until `close`.

        Thread: any.
        """
        self._is_interrupted = True
        for connection in list(self._open.values()):
            connection.interrupt()

    def _check_not_interrupted(self, address: Address) -> None:
        if self._is_interrupted:
            raise Interrupted(f"{address}: the client was interrupted", broker=str(address))

    def to_any(self, addresses: Callable[[], list[Address]], deadline: Deadline) -> Connection:
        """Return an open connection, else one to the first address that responds.

        Raises: BrokerUnreachable: no address responds; the message has the reason for each.
            BadAnswer: none responds, and one of them is not a broker.
        """
        bad: BadAnswer | None = None
        open_now = [address for address, each in self._open.items() if each.is_idle]
        reasons: list[str] = []
        for address in dict.fromkeys([*open_now, *addresses()]):
            try:
                return self.to(address, deadline)
            except BrokerUnreachable as error:
                reasons.append(str(error))
            except BadAnswer as error:
                bad = bad or error
        if bad is not None:
            raise bad
        raise BrokerUnreachable(f"no broker answers ({'; '.join(reasons)}); is it running, and is the address right?")

    def keep_only(self, addresses: set[Address]) -> None:
        """Close all other connections.

        These are connections to removed brokers, and to bootstrap addresses of brokers that have
        another address in the metadata.
        """
        for address in [each for each in self._open if each not in addresses]:
            self._open.pop(address).close()

    def close(self) -> None:
        """Close all connections."""
        while self._open:
            self._open.popitem()[1].close()
        self._is_interrupted = False
