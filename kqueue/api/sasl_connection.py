"""The calls of an authenticating connection that the handlers of SASL make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kqueue.api.request_context import RequestContext
from kqueue.base.promise import Promise


class SaslAnswer(NamedTuple):
    """The server's token. `session_ms`: how long the session lasts; 0: without end, or not yet."""

    token: bytes
    session_ms: int = 0


class SaslConnection(Protocol):
    """A connection of a listener with SASL. Failed promises have IllegalSaslState,
    UnsupportedSaslMechanism or SaslAuthenticationFailed; the connection is closed afterwards.
    """

    @property
    def mechanisms(self) -> Sequence[str]:
        """The names of the mechanisms that a client may choose from."""
        ...

    def choose(self, mechanism: str, *, framed: bool) -> Promise[None]:
        """Begin an authentication. `framed`: its tokens come in SaslAuthenticate requests."""
        ...

    def respond(self, token: bytes) -> Promise[SaslAnswer]:
        """Take the client's next token."""
        ...


def sasl_of(context: RequestContext) -> SaslConnection | None:
    """Return the connection of a request, if its listener has SASL."""
    connection: SaslConnection | None = getattr(context.connection, "sasl", None)
    return connection
