"""TLS handshakes of one listener. A connection whose handshake is done becomes a session.

The steps of a handshake run in jobs, because OpenSSL computes for milliseconds; between them the
loop waits for the socket. A client that sends nothing costs its socket and no more. At most half of
the cores compute, and addresses take turns, so that no client keeps others waiting.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from functools import partial

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.jobs import IoJob
from kqueue.base.log_event import LogEvent
from kqueue.base.timers import Timer
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import Accepted
from kqueue.network.tls_context import ListenerTls, TlsContext
from kqueue.network.tls_socket import TlsSocket
from kqueue.security.audit import AuditEvent, Decision
from kqueue.security.principals import ANONYMOUS, USER_TYPE, Principal
from kqueue.security.x500_names import subject_of

STEPS_MAX = max(1, (os.cpu_count() or 1) // 2)
"""So many steps are computed at once."""
PATIENCE_MS = 500
"""A client that was silent for less is not closed to make room for another."""
REST_BYTES = 65_536
NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
"""OpenSSL's name of the failure."""
_HANDSHAKE = 0x16
_QUEUE = "TLS handshakes"
Step = bool | None | Principal
"""The next step: the socket to be read (True) or written (False); or the client, all done."""


class CertificateRefused(OSError):
    """A client's certificate is trusted, but says no user."""


class _Handshake:
    """One connection. `tls` None: nothing has arrived. `busy`: a step is to run, or runs."""

    __slots__ = ("accepted", "busy", "context", "ended", "plain", "timer", "tls", "waits_since_ms")

    def __init__(self, plain: socket.socket, accepted: Accepted, context: TlsContext, now_ms: float) -> None:
        self.plain = plain
        self.accepted = accepted
        self.context = context
        self.tls: TlsSocket | None = None
        self.waits_since_ms = now_ms
        self.busy = False
        self.ended = False
        self.timer: Timer

    @property
    def socket(self) -> socket.socket | TlsSocket:
        return self.plain if self.tls is None else self.tls

    def close(self) -> None:
        self.plain.close()
        if self.tls is not None:
            self.tls.close_descriptor()


class TlsHandshakes:
    """The handshakes under way.

    Args:
        done: called with the socket of each finished handshake, and its client.
        failed: called with the address of each connection that was closed.
    """

    def __init__(
        self,
        tls: ListenerTls,
        registry: ConnectionRegistry,
        config: Config,
        done: Callable[[TlsSocket, Accepted], None],
        failed: Callable[[str], None],
    ) -> None:
        self._tls = tls
        self._registry = registry
        self._done = done
        self._failed = failed
        self._timeout_ms: int = config["kqueue.tls.handshake.timeout.ms"]
        self._max: int = config["kqueue.tls.max.handshakes"]
        self._under_way: dict[_Handshake, None] = {}  # the oldest first
        self._ready: OrderedDict[str, deque[_Handshake]] = OrderedDict()  # for a step, by address
        self._stepping: set[_Handshake] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def make_room(self) -> bool:
        """Return whether one more may begin. Where all places are taken, those that have waited for
        their clients for a while are closed, first of the addresses that have most.
        """
        if len(self._under_way) < self._max:
            return True
        since_ms = self._registry.clock.monotonic_ms() - PATIENCE_MS
        counts = Counter(one.accepted.host for one in self._under_way)
        silent = [one for one in self._under_way if not one.busy and one.waits_since_ms <= since_ms]
        silent.sort(key=lambda one: -counts[one.accepted.host])
        for one in silent[: max(1, self._max // 10)]:
            self._fail(one, "too many TLS handshakes are under way, and it is slow (kqueue.tls.max.handshakes)")
        return bool(silent)

    def begin(self, plain: socket.socket, accepted: Accepted) -> None:
        """Begin the handshake of a non-blocking socket, which belongs to this object from now on.

        Raises: OSError: the selector accepts no more sockets.
        """
        one = _Handshake(plain, accepted, self._tls.current, self._registry.clock.monotonic_ms())
        self._registry.loop.add_reader(plain, self._first_bytes, one)
        self._under_way[one] = None
        one.timer = self._registry.call_later(
            self._timeout_ms,
            lambda: self._fail(one, f"its TLS handshake took {self._timeout_ms} ms (kqueue.tls.handshake.timeout.ms)"),
        )

    def close(self) -> None:
        """End all handshakes."""
        for one in list(self._under_way):
            self._end(one)

    def close_descriptors(self) -> None:
        """Close this process's copies of the sockets only; see `Server.close_descriptors`."""
        for one in self._under_way:
            one.close()

    # --- the steps

    def _first_bytes(self, one: _Handshake) -> None:
        self._registry.loop.remove_reader(one.plain)
        try:
            # Peeked, so that OpenSSL reads them too. Another protocol gets a clear log line, and
            # costs no TLS object.
            first = one.plain.recv(5, socket.MSG_PEEK)
            if not first:
                self._fail(one, "it ended before its TLS handshake", events.CONNECTION_LOST)
                return
            if first[0] != _HANDSHAKE:
                self._fail(one, _protocol_hint(first, one.accepted.listener))
                return
            one.tls = TlsSocket(one.plain, one.context.context)
        except (BlockingIOError, InterruptedError):
            self._registry.loop.add_reader(one.plain, self._first_bytes, one)
            return
        except OSError as error:
            self._fail(one, f"its TLS handshake failed: {error.strerror or error}", events.CONNECTION_LOST)
            return
        self._queue_step(one)

    def _queue_step(self, one: _Handshake) -> None:
        one.busy = True
        self._ready.setdefault(one.accepted.host, deque()).append(one)
        self._run_steps()

    def _run_steps(self) -> None:
        while self._ready and len(self._stepping) < STEPS_MAX:
            host, waiting = self._ready.popitem(last=False)
            one = waiting.popleft()
            if waiting:
                self._ready[host] = waiting  # the next step is that of another address
            if one.ended:
                one.close()
                continue
            self._stepping.add(one)
            job = IoJob("TLS handshake", partial(self._step, one), partial(self._have_stepped, one), _QUEUE)
            self._registry.jobs.submit(job)

    def _step(self, one: _Handshake) -> Step:
        """Thread: a job's. Raises OSError: the handshake failed; see `_is_of_certificate`."""
        assert one.tls is not None
        wait_to_read = one.tls.step()
        if wait_to_read is not None:
            return wait_to_read
        suites = one.context.suites
        if suites and one.tls.suite not in suites:
            raise OSError(f"it chose {one.tls.suite}, which ssl.cipher.suites does not name")
        return self._client_of(one.tls)

    def _client_of(self, tls: TlsSocket) -> Principal:
        certificate = tls.peer_certificate() if self._tls.takes_certificates else None
        if certificate is None:
            return ANONYMOUS
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise CertificateRefused(f"the subject of its certificate can't be read: {error}") from None
        name = self._tls.mapper.name_of(subject)
        if name is None:
            raise CertificateRefused(f"no rule of ssl.principal.mapping.rules matches {subject[:200]!r}")
        return Principal(USER_TYPE, name)

    def _have_stepped(self, one: _Handshake, step: Step, error: BaseException | None) -> None:
        self._stepping.discard(one)
        one.busy = False
        if one.ended:
            one.close()
        elif error is not None:
            if _is_of_certificate(error):
                self._audit(one.accepted, _reason(error))
            self._fail(one, f"its TLS handshake failed: {_reason(error)}")
        elif isinstance(step, Principal):
            self._finish(one, step)
        else:
            self._wait(one, to_read=bool(step))
        self._run_steps()

    def _wait(self, one: _Handshake, *, to_read: bool) -> None:
        loop = self._registry.loop
        one.waits_since_ms = self._registry.clock.monotonic_ms()
        if to_read:
            loop.add_reader(one.socket, self._ready_to_read, one)
        else:
            loop.add_writer(one.socket, self._ready_to_write, one)

    def _ready_to_read(self, one: _Handshake) -> None:
        self._registry.loop.remove_reader(one.socket)
        self._queue_step(one)

    def _ready_to_write(self, one: _Handshake) -> None:
        self._registry.loop.remove_writer(one.socket)
        self._queue_step(one)

    # --- the end

    def _finish(self, one: _Handshake, client: Principal) -> None:
        del self._under_way[one]
        one.timer.cancel()
        assert one.tls is not None
        self._done(one.tls, one.accepted._replace(principal=client))

    def _audit(self, accepted: Accepted, reason: str) -> None:
        self._registry.authentication_failures[accepted.listener, "TLS"] += 1
        if self._registry.audit is not None:
            client = f"{accepted.host}:{accepted.port}"
            self._registry.audit.write(
                AuditEvent(Decision.FAILED, None, client, accepted.listener, "", "TLS", reason=reason)
            )

    def _fail(self, one: _Handshake, reason: str, event: LogEvent = events.CONNECTION_CLOSED) -> None:
        address = f"{one.accepted.host}:{one.accepted.port}"
        self._registry.client_log.log(event, address, "closed the connection of %s: %s", client=address, reason=reason)
        if not one.busy:
            _read_rest(one.socket.fileno())
        self._end(one)

    def _end(self, one: _Handshake) -> None:
        del self._under_way[one]
        one.timer.cancel()
        one.ended = True
        if not one.busy:  # else a step is using it, or will close it
            if one.socket.fileno() >= 0:
                self._registry.loop.remove_reader(one.socket)
                self._registry.loop.remove_writer(one.socket)
            one.close()
        self._failed(one.accepted.host)


def _read_rest(descriptor: int) -> None:
    """Read what has arrived. A socket that is closed with bytes unread is reset, and clients may
    see that instead of the alert with the reason: with TLS 1.3 they send more after a certificate.
    """
    with contextlib.suppress(OSError):
        os.read(descriptor, REST_BYTES)


def _protocol_hint(first: bytes, listener: str) -> str:
    if first[:4] in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return f"it speaks HTTP, and listener {listener} needs TLS"
    return f"it does not speak TLS, which listener {listener} needs (client setting security.protocol)"


def _is_of_certificate(error: BaseException) -> bool:
    """Return whether a client could not show who it is, rather than not speak TLS."""
    refused = isinstance(error, (ssl.SSLCertVerificationError, CertificateRefused))
    return refused or getattr(error, "reason", None) == NO_CERTIFICATE


def _reason(error: BaseException) -> str:
    """Return what OpenSSL says of a failure, without the place in its source."""
    reason = getattr(error, "reason", None)
    if reason:
        text = str(reason).replace("_", " ").lower()
        detail = getattr(error, "verify_message", None)
        return f"{text} ({detail})" if detail else text
    return str(getattr(error, "strerror", None) or error) or "the client closed the connection"
