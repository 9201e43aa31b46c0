"""The server's side of one connection's authentication: which step may follow which.

    HANDSHAKE ──mechanism──> AUTHENTICATE ──last token──> AUTHENTICATED
        │                        │  ↑                          │
        └── error ──> FAILED <───┘  └──── mechanism again ─────┘  (re-authentication)

FAILED is final: the connection is closed. Re-authentication takes the same mechanism and principal,
on a connection whose session has an end. Source: Kafka's SaslServerAuthenticator, KIP-368.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kqueue.base.clock import Clock
from kqueue.security.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import NewServerMechanism, ServerMechanism, SlowStep

REAUTHENTICATION_MS_MIN = 1000
"""A connection authenticates again at most once in this time."""


class SaslState(enum.Enum):
    """The step that comes next."""

    HANDSHAKE = "the choice of a mechanism"
    AUTHENTICATE = "a token of the mechanism"
    AUTHENTICATED = "requests"
    FAILED = "nothing: the connection is closed"


class OfferedMechanism(NamedTuple):
    """A mechanism of a listener. `session_ms_max`: connections.max.reauth.ms; 0: no end."""

    begin: NewServerMechanism
    session_ms_max: int = 0


class SaslExchange:
    """One connection's authentication.

    `principal`: whom it authenticated as; None before. `framed`: tokens come in SaslAuthenticate
    requests. `session_ms`: how long the session lasts from its authentication; 0: without end.
    """

    __slots__ = ("_begun_ms", "_clock", "_mechanism", "_name", "_offered", "_wrong_mechanism", "ends_ms", "framed",
                 "principal", "session_ms", "state")  # fmt: skip

    def __init__(self, offered: Mapping[str, OfferedMechanism], clock: Clock) -> None:
        self._offered = offered
        self._clock = clock
        self._mechanism: ServerMechanism | None = None
        self._name = ""
        self._wrong_mechanism = False
        self._begun_ms = 0.0
        self.state = SaslState.HANDSHAKE
        self.framed = True
        self.principal: Principal | None = None
        self.session_ms = 0
        self.ends_ms: float | None = None  # of the session, on the monotonic clock

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that a client may choose from."""
        return list(self._offered)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that the client chose first; empty: none yet."""
        return self._name

    @property
    def refusal(self) -> SaslAuthenticationFailed | None:
        """The refusal that was sent, and that the client has yet to acknowledge; None: none."""
        return None if self._mechanism is None else self._mechanism.refusal

    @property
    def is_expired(self) -> bool:
        """Whether the session is over: only re-authentication may follow."""
        return self.ends_ms is not None and self._clock.monotonic_ms() >= self.ends_ms

    def choose(self, name: str, *, framed: bool) -> None:
        """Begin an authentication with a mechanism.

        Raises: UnsupportedSaslMechanism. IllegalSaslState: another step has to follow, or an
            authenticated connection has no reason to begin again; then its state stays.
        """
        now_ms = self._clock.monotonic_ms()
        if self.state is SaslState.AUTHENTICATED:
            if self.ends_ms is None or not framed or now_ms - self._begun_ms < REAUTHENTICATION_MS_MIN:
                raise IllegalSaslState("SaslHandshake came after a successful authentication")
        elif self.state is not SaslState.HANDSHAKE:
            raise self._failed(IllegalSaslState(f"expected {self.state.value}, found SaslHandshake"))
        offered = self._offered.get(name)
        if offered is None:
            names = ", ".join(self._offered)
            raise self._failed(UnsupportedSaslMechanism(f"the listener has {names}, the client asked for another"))
        self._wrong_mechanism = self.principal is not None and name != self._name
        self._name = self._name or name
        self._mechanism = offered.begin()
        self._begun_ms = now_ms
        self.framed = framed
        self.state = SaslState.AUTHENTICATE

    def respond(self, token: bytes) -> bytes | SlowStep:
        """Return the response to the client's next token, or how it is made; then the state tells
        whether it was the last.

        Raises: SaslAuthenticationFailed. IllegalSaslState: as `choose`.
        """
        if self.state is SaslState.AUTHENTICATED:
            raise IllegalSaslState("SaslAuthenticate came after a successful authentication")
        if self.state is not SaslState.AUTHENTICATE or self._mechanism is None:
            raise self._failed(IllegalSaslState(f"expected {self.state.value}, found SaslAuthenticate"))
        if self._wrong_mechanism:
            raise self._failed(
                SaslAuthenticationFailed("Re-authentication failed: expected the mechanism of the first authentication")
            )
        mechanism = self._mechanism
        answer: bytes | SlowStep = self._checked(lambda: mechanism.respond(token))
        if isinstance(answer, SlowStep):
            slow = answer
            return SlowStep(slow.run, lambda result: self._finish(mechanism, slow, result))
        self._complete(mechanism)
        return answer

    def fail(self) -> None:
        """End the exchange: a step of it can't be done."""
        self.state = SaslState.FAILED

    def _finish(self, mechanism: ServerMechanism, slow: SlowStep, result: Any) -> bytes:
        answer: bytes = self._checked(lambda: slow.finish(result))
        self._complete(mechanism)
        return answer

    def _checked(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except SaslAuthenticationFailed as error:
            raise self._failed(error) from None
        except BaseException:
            self.fail()
            raise

    def _complete(self, mechanism: ServerMechanism) -> None:
        authenticated = mechanism.authenticated
        if authenticated is None:
            return
        if self.principal is not None and self.principal != authenticated.principal:
            raise self._failed(
                SaslAuthenticationFailed("Re-authentication failed: expected the principal of the first authentication")
            )
        limits: list[float] = []
        if (session_ms_max := self._offered[self._name].session_ms_max) > 0:
            limits.append(session_ms_max)
        if authenticated.expires_ms is not None:
            limits.append(max(0.0, authenticated.expires_ms - self._clock.wall_ms()))
        self.session_ms = int(min(limits, default=0))
        self.ends_ms = self._clock.monotonic_ms() + self.session_ms if limits else None
        self.principal = authenticated.principal
        self._mechanism = None
        self.state = SaslState.AUTHENTICATED

    def _failed(self, error: Exception) -> Exception:
        self.fail()
        return error
