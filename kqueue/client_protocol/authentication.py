"""Authenticates a client by SASL: SaslHandshake, then SaslAuthenticate until the mechanism is
complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kqueue.base.errors import KqueueError
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.sasl.contract import ClientMechanism
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class Login(Protocol):
    """Credentials of a client, with their mechanism."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    def begin(self) -> ClientMechanism:
        """Return the client's side of one authentication; may ask for a token first."""
        ...


class MechanismNotOffered(KqueueError):
    """The broker does not have the mechanism. `offered`: those that it has."""

    def __init__(self, mechanism: str, offered: Sequence[str], code: int) -> None:
        super().__init__(f"it does not offer {mechanism} but {', '.join(offered)} (error {code})")
        self.offered = offered


class CredentialsRefused(KqueueError):
    """The broker refuses a message of the mechanism. `code`, `reason`: of its response."""

    def __init__(self, code: int, reason: str | None) -> None:
        what = "it refuses the credentials" if code == ErrorCode.SASL_AUTHENTICATION_FAILED else "it refuses"
        super().__init__(f"{what}: {reason or f'error {code}'}")
        self.code = code
        self.reason = reason


class ClientAuthentication:
    """One authentication.

    Protocol: send what `begin` returns. Call `receive` with each response, then send what
    `next_request` returns, until it returns None.

    Attributes:
        session_lifetime_ms: of the last response; 0: the session has no end.
    """

    def __init__(self, login: Login) -> None:
        self._login = login
        self._mechanism: ClientMechanism | None = None
        self._token = b""
        self.session_lifetime_ms = 0

    def begin(self) -> SaslHandshakeRequest:
        """Return the first request."""
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def receive(self, response: SaslHandshakeResponse | SaslAuthenticateResponse) -> None:
        """Take the response to the last request.

        It computes nothing: a broker closes the connection after a refusal, which is to be known
        first. Raises: MechanismNotOffered, CredentialsRefused.
        """
        if isinstance(response, SaslHandshakeResponse):
            if response.error_code:
                raise MechanismNotOffered(self._login.mechanism, response.mechanisms, response.error_code)
            return
        if response.error_code:
            raise CredentialsRefused(response.error_code, response.error_message)
        self.session_lifetime_ms = int(response.session_lifetime_ms)
        self._token = bytes(response.auth_bytes)

    def next_request(self) -> SaslAuthenticateRequest | None:
        """Return the next request; None: the client is authenticated.

        Thread: any. SCRAM computes for milliseconds here, and a token may have to be asked for.
        Raises: SaslAuthenticationFailed: the broker does not prove what it has to. What
            `Login.begin` raises.
        """
        if self._mechanism is None:
            self._mechanism = self._login.begin()
            return SaslAuthenticateRequest(auth_bytes=self._mechanism.first())
        token = self._mechanism.respond(self._token)
        if token is not None:
            return SaslAuthenticateRequest(auth_bytes=token)
        if not self._mechanism.is_complete:
            raise SaslAuthenticationFailed("it ended the authentication too early")
        return None
