"""HTTP basic authentication: user and password of each request, with a bound on failed ones."""

from __future__ import annotations

import base64
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from kqueue.base.clock import monotonic_s
from kqueue.schema_registry.errors import TOO_MANY_LOGINS, UNAUTHORIZED, RegistryError
from kqueue.schema_registry.rest.contract import Credentials
from kqueue.web.failure_limit import FailureLimit

HEADER_CHARACTERS_MAX = 4_000
LOGIN_KEPT_S = 30.0
"""Clients send their password with each request; a login that succeeded is not checked again for so
long, so a user that was removed may go on for that time.
"""
LOGINS_KEPT_MAX = 1_000


class LoginCheck(Protocol):
    """Checks names and passwords. Thread: any."""

    def refusal(self, user: str, password: str) -> str | None:
        """Return why a login is refused; None: it is accepted.

        Raises: RegistryError: it can't be checked now.
        """
        ...


class BasicAuthenticator:
    """The `Authenticator` of a registry whose users have passwords.

    After `failure_limit.FAILURES_MAX` failed logins within a minute an address has to wait.

    Thread: any.
    """

    challenge = 'Basic realm="schema registry", charset="UTF-8"'

    def __init__(self, check: LoginCheck, now_s: Callable[[], float] = monotonic_s) -> None:
        self._check = check
        self._now_s = now_s
        self._failures = FailureLimit(now_s)
        self._key = secrets.token_bytes(32)
        self._accepted: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def authenticate(self, credentials: Credentials) -> str:
        """Return the name of the user. Raises: RegistryError: 401, or 429 after many failures."""
        if credentials.authorization is None:
            raise RegistryError(UNAUTHORIZED, reason="Send a user and a password by HTTP basic authentication.")
        user, password = _user_and_password(credentials.authorization)
        login = hmac.digest(self._key, f"{len(user)}:{user}{password}".encode(), "sha256")
        with self._lock:
            ends_s = self._accepted.get(login)
        if ends_s is not None and self._now_s() < ends_s:
            return user
        address = credentials.client[0] if credentials.client is not None else ""
        if self._failures.is_reached(address):
            raise RegistryError(TOO_MANY_LOGINS)
        refusal = self._check.refusal(user, password)
        if refusal is not None:
            self._failures.count(address)
            raise RegistryError(UNAUTHORIZED, reason=refusal)
        with self._lock:
            self._accepted[login] = self._now_s() + LOGIN_KEPT_S
            self._accepted.move_to_end(login)
            while len(self._accepted) > LOGINS_KEPT_MAX:
                self._accepted.popitem(last=False)
        return user


def _user_and_password(header: str) -> tuple[str, str]:
    """Return what a header Authorization says. Raises: RegistryError."""
    malformed = RegistryError(
        UNAUTHORIZED, reason="The header Authorization must be Basic, and user:password in Base64."
    )
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > HEADER_CHARACTERS_MAX:
        raise malformed
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:
        raise malformed from None
    if not colon or not user:
        raise malformed
    return user, password
