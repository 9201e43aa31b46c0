"""PLAIN: user name and password in clear, so for encrypted listeners. Source: RFC 4616.

The message is ``[authorization id] NUL user NUL password``.
"""

from __future__ import annotations

from kqueue.base.text import java_text
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.principals import USER_TYPE, Principal
from kqueue.security.sasl.contract import Authenticated, SlowStep, invalid_credentials, malformed
from kqueue.security.sasl.passwords import Passwords

PLAIN = "PLAIN"
_EXPECTED = "an authorization id, a user and a password, separated by NUL,"


class PlainServer:
    """See `ServerMechanism`. `passwords`: of all users of the listener."""

    name = PLAIN

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self.authenticated: Authenticated | None = None
        self.refusal: SaslAuthenticationFailed | None = None

    def respond(self, message: bytes) -> bytes | SlowStep:
        """See `ServerMechanism`."""
        parts = java_text(bytes(message)).split("\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise malformed(PLAIN, _EXPECTED)
        authorization_id, user, password = parts
        if authorization_id not in ("", user):
            raise malformed(PLAIN, "the authorization id of the user, or none,")

        def finish(matches: bool) -> bytes:
            if not matches:
                raise invalid_credentials(PLAIN)
            self.authenticated = Authenticated(Principal(USER_TYPE, user))
            return b""

        if self._passwords.is_slow:
            return SlowStep(lambda: self._passwords.matches(user, password), finish)
        return finish(self._passwords.matches(user, password))


class PlainClient:
    """See `ClientMechanism`."""

    name = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self.is_complete = False

    def __repr__(self) -> str:
        return f"<PlainClient of {self._user}>"

    def first(self) -> bytes:
        """See `ClientMechanism`."""
        return f"\0{self._user}\0{self._password}".encode()

    def respond(self, message: bytes) -> bytes | None:
        """See `ClientMechanism`: the server proves nothing."""
        self.is_complete = True
        return None
