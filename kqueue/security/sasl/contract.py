"""The contract of SASL mechanisms, for servers and clients.

A mechanism's object is one authentication of one connection. Neither its messages nor its `repr`
contain a secret, and what it raises may be sent to the other side as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.principals import Principal


class Authenticated(NamedTuple):
    """Whom a client authenticated as. `expires_ms`: end of its credentials on the wall clock, e.g.
    of a token; None: they have none.
    """

    principal: Principal
    expires_ms: float | None = None


class SlowStep(NamedTuple):
    """A step too slow for the broker's thread: `finish(run())` is the server's response.

    `run` touches nothing that others change, and runs in a job; `finish` runs on the broker's
    thread, and raises as `ServerMechanism.respond` does.
    """

    run: Callable[[], Any]
    finish: Callable[[Any], bytes]


class ServerMechanism(Protocol):
    """The server's side. `authenticated` is set by the last `respond`; None: there are more steps.

    `refusal`: why the next `respond` fails whatever the client says, as the last response told it;
    None: it need not fail.
    `name`: the registered name, such as ``SCRAM-SHA-256``.
    """

    name: str
    authenticated: Authenticated | None
    refusal: SaslAuthenticationFailed | None

    def respond(self, message: bytes) -> bytes | SlowStep:
        """Return the response to the client's next message; the last one may be empty.

        Raises: SaslAuthenticationFailed: in the same words for an unknown user and a wrong
            password. The object is of no use afterwards.
        """
        ...


class ClientMechanism(Protocol):
    """The client's side. `is_complete`: the server has proven all that the mechanism asks of it.

    `name`: the registered name.
    """

    name: str
    is_complete: bool

    def first(self) -> bytes:
        """Return the first message."""
        ...

    def respond(self, message: bytes) -> bytes | None:
        """Return the answer to the server's message; None: nothing remains to be sent. SCRAM
        computes for milliseconds here.

        Raises: SaslAuthenticationFailed: the server does not prove what it has to.
        """
        ...


NewServerMechanism = Callable[[], ServerMechanism]
"""Begins one authentication."""


def invalid_credentials(mechanism: str) -> SaslAuthenticationFailed:
    """Return the error of every wrong user, password, proof and token."""
    return SaslAuthenticationFailed(f"Authentication failed: invalid credentials with SASL mechanism {mechanism}")


def malformed(mechanism: str, expected: str) -> SaslAuthenticationFailed:
    """Return the error of a message that is not what the mechanism expects; it never shows it."""
    return SaslAuthenticationFailed(f"Authentication failed: expected {expected} with SASL mechanism {mechanism}")
