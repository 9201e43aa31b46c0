"""The authentication of this broker at another one, by SASL. What the mechanism computes runs in
jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import KqueueError
from kqueue.base.jobs import IoJob, Jobs
from kqueue.client_protocol.authentication import ClientAuthentication
from kqueue.interbroker.contract import PeerCallback
from kqueue.interbroker.errors import PeerError
from kqueue.network.peer_security import PeerSecurity
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeResponse

_QUEUE = "authentication at brokers"


class PeerAuthentication:
    """One authentication.

    Args:
        ask: sends a request.
        done: gets the session's lifetime in milliseconds; 0: it has no end.
        failed: gets the reason.
    """

    def __init__(
        self,
        security: PeerSecurity,
        jobs: Jobs,
        ask: Callable[[object, PeerCallback], None],
        *,
        done: Callable[[int], None],
        failed: Callable[[str], None],
    ) -> None:
        login = security.login
        assert login is not None
        self._who = f"user {login.user} by {login.mechanism}, see sasl.jaas.config of listener {security.listener}"
        self._authentication = ClientAuthentication(login)
        self._jobs = jobs
        self._ask = ask
        self._done = done
        self._failed = failed
        self._ended = False

    def start(self) -> None:
        """Send the first request."""
        self._ask(self._authentication.begin(), self._answered)

    def close(self) -> None:
        """End it without a call."""
        self._ended = True

    def _answered(self, response: SaslHandshakeResponse | SaslAuthenticateResponse | PeerError) -> None:
        if self._ended or isinstance(response, PeerError):
            return
        try:
            self._authentication.receive(response)
        except KqueueError as error:
            self._fail(str(error))
            return

        def computed(request: SaslAuthenticateRequest | None, error: BaseException | None) -> None:
            if self._ended:
                return
            if error is not None:
                self._fail(str(error) if isinstance(error, KqueueError) else f"unexpected {type(error).__name__}")
            elif request is not None:
                self._ask(request, self._answered)
            else:
                self._ended = True
                self._done(self._authentication.session_lifetime_ms)

        self._jobs.submit(IoJob("authenticate at a broker", self._authentication.next_request, computed, _QUEUE))

    def _fail(self, reason: str) -> None:
        self._ended = True
        self._failed(f"this broker can't authenticate ({self._who}): {reason}")
