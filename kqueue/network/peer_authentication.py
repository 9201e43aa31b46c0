"""The authentication of this broker at another one, by SASL: SaslHandshake, then SaslAuthenticate
until the mechanism is complete. What the mechanism computes runs in jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import KqueueError
from kqueue.base.jobs import IoJob, Jobs
from kqueue.interbroker.contract import PeerCallback
from kqueue.interbroker.errors import PeerError
from kqueue.network.peer_security import PeerSecurity
from kqueue.security.sasl.contract import ClientMechanism
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_QUEUE = "authentication at brokers"


class PeerAuthentication:
    """One authentication.

    Args:
        ask: sends a request.
        done: gets the session's lifetime in milliseconds; 0: it has no end.
        failed: gets the reason.
    """

    _mechanism: ClientMechanism

    def __init__(
        self,
        security: PeerSecurity,
        jobs: Jobs,
        ask: Callable[[object, PeerCallback], None],
        *,
        done: Callable[[int], None],
        failed: Callable[[str], None],
    ) -> None:
        assert security.login is not None
        self._login = security.login
        who = f"user {self._login.user} by {self._login.mechanism}"
        self._who = f"{who}, see sasl.jaas.config of listener {security.listener}"
        self._jobs = jobs
        self._ask = ask
        self._done = done
        self._failed = failed
        self._ended = False

    def start(self) -> None:
        """Send the first request."""
        self._ask(SaslHandshakeRequest(mechanism=self._login.mechanism), self._chosen)

    def close(self) -> None:
        """End it without a call."""
        self._ended = True

    def _chosen(self, response: SaslHandshakeResponse | PeerError) -> None:
        if self._ended or isinstance(response, PeerError):
            return
        if response.error_code:
            offered = ", ".join(response.mechanisms)
            self._fail(f"it does not offer {self._login.mechanism} but {offered} (error {response.error_code})")
            return
        self._compute(self._begin)

    def _begin(self) -> bytes:
        self._mechanism = self._login.begin()  # in a job: a token may have to be asked for
        return self._mechanism.first()

    def _authenticate(self, token: bytes) -> None:
        self._ask(SaslAuthenticateRequest(auth_bytes=token), self._answered)

    def _answered(self, response: SaslAuthenticateResponse | PeerError) -> None:
        if self._ended or isinstance(response, PeerError):
            return
        if response.error_code:
            code = response.error_code
            reason = response.error_message or f"error {code}"
            what = "it refuses the credentials" if code == ErrorCode.SASL_AUTHENTICATION_FAILED else "it refuses"
            self._fail(f"{what}: {reason}")
            return
        token, lifetime_ms = bytes(response.auth_bytes), response.session_lifetime_ms
        self._compute(lambda: self._mechanism.respond(token), lifetime_ms)

    def _compute(self, step: Callable[[], bytes | None], lifetime_ms: int = 0) -> None:
        def computed(token: bytes | None, error: BaseException | None) -> None:
            if self._ended:
                return
            if error is not None:
                self._fail(str(error) if isinstance(error, KqueueError) else f"unexpected {type(error).__name__}")
            elif token is not None:
                self._authenticate(token)
            elif not self._mechanism.is_complete:
                self._fail("it ended the authentication too early")
            else:
                self._ended = True
                self._done(lifetime_ms)

        self._jobs.submit(IoJob("authenticate at a broker", step, computed, _QUEUE))

    def _fail(self, reason: str) -> None:
        self._ended = True
        self._failed(f"this broker can't authenticate ({self._who}): {reason}")
