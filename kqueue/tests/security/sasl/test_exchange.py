"""The exchange as a state machine: whatever a client does, only its own credentials let it in."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import KqueueError
from kqueue.security.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import Authenticated, SlowStep
from kqueue.security.sasl.exchange import OfferedMechanism, SaslExchange, SaslState
from kqueue.security.sasl.passwords import HASHED_BY, Passwords
from kqueue.security.sasl.plain import PlainClient, PlainServer
from kqueue.security.sasl.scram import ScramClient, ScramServer
from kqueue.security.scram_credentials import (
    SCRAM_MECHANISMS,
    ScramAccount,
    make_credential,
)
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

USERS = {"ann": "secret", "bob": "geheim"}
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
ACCOUNTS = {user: ScramAccount(make_credential(SHA_256, word), Principal("User", user)) for user, word in USERS.items()}
SLOW = Passwords({user: make_credential(HASHED_BY, word) for user, word in USERS.items()})
MADE_UP = MadeUpCredentials()
SESSION_MS = 10_000


def offered(session_ms: int = SESSION_MS) -> dict[str, OfferedMechanism]:
    return {
        "PLAIN": OfferedMechanism(lambda: PlainServer(Passwords(USERS)), session_ms),
        "SLOW": OfferedMechanism(lambda: PlainServer(SLOW), session_ms),
        "SCRAM-SHA-256": OfferedMechanism(
            lambda: ScramServer(SHA_256, lambda name, user, by_token: ACCOUNTS.get(user), MADE_UP), session_ms
        ),
    }


def respond(exchange: SaslExchange, token: bytes) -> bytes:
    answer = exchange.respond(token)
    return answer.finish(answer.run()) if isinstance(answer, SlowStep) else answer


def log_in(exchange: SaslExchange, name: str = "PLAIN", user: str = "ann", password: str = "secret") -> None:
    exchange.choose(name, framed=True)
    client = ScramClient(SHA_256, user, password) if name == "SCRAM-SHA-256" else PlainClient(user, password)
    token: bytes | None = client.first()
    while token is not None:
        token = client.respond(respond(exchange, token))


@settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
class SaslMachine(RuleBasedStateMachine):
    """A client that does anything in any order, beside a model of what it has proven."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.exchange = SaslExchange(offered(), self.clock)
        self.begun: str | None = None
        self.begun_ms = -1e9
        self.client: ScramClient | None = None
        self.first_mechanism: str | None = None
        self.proven: str | None = None
        self.proven_ms = 0.0
        self.is_dead = False

    @rule(name=st.sampled_from(["PLAIN", "SLOW", "SCRAM-SHA-256", "GSSAPI", ""]), framed=st.booleans())
    def choose(self, name: str, framed: bool) -> None:
        before = self.exchange.state
        now = self.clock.monotonic_ms()
        try:
            self.exchange.choose(name, framed=framed)
        except UnsupportedSaslMechanism:
            assert name not in offered()
            self.is_dead = True
        except IllegalSaslState:
            if before is SaslState.AUTHENTICATED:
                assert not framed or now - self.begun_ms < 1000
                assert self.exchange.state is SaslState.AUTHENTICATED
            else:
                assert before in (SaslState.AUTHENTICATE, SaslState.FAILED)
                self.is_dead = True
        else:
            assert before in (SaslState.HANDSHAKE, SaslState.AUTHENTICATED)
            assert name in offered()
            self.begun, self.begun_ms, self.client = name, now, None
            self.first_mechanism = self.first_mechanism or name

    @rule(token=st.binary(max_size=40) | st.sampled_from([b"", b"\0", b"\0ann\0", b"\0\0secret", b"n,,n=ann,r=x"]))
    def send_anything(self, token: bytes) -> None:
        before = self.exchange.state
        try:
            respond(self.exchange, token)
        except (IllegalSaslState, SaslAuthenticationFailed):
            self.is_dead = self.is_dead or before is not SaslState.AUTHENTICATED
        else:
            assert token.startswith((b"n,", b"y,"))
            self.client = None

    @rule(user=st.sampled_from(["ann", "bob", "eve", ""]), password=st.sampled_from(["secret", "geheim", ""]))
    def send_credentials(self, user: str, password: str) -> None:
        before = self.exchange.state
        is_right = USERS.get(user) == password
        try:
            if self.begun == "SCRAM-SHA-256":
                client = ScramClient(SHA_256, user, password)
                respond(self.exchange, client.respond(respond(self.exchange, client.first())) or b"")
            else:
                respond(self.exchange, PlainClient(user, password).first())
        except (IllegalSaslState, SaslAuthenticationFailed):
            self.is_dead = self.is_dead or before is not SaslState.AUTHENTICATED
        else:
            assert before is SaslState.AUTHENTICATE
            assert is_right
            assert self.begun == self.first_mechanism
            assert self.proven in (None, user)
            self.proven, self.proven_ms = user, self.clock.monotonic_ms()

    @precondition(lambda self: not self.is_dead)
    @rule(ms=st.sampled_from([1, 999, 1000, SESSION_MS - 1, SESSION_MS]))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @invariant()
    def nobody_is_in_who_has_not_proven_it(self) -> None:
        exchange = self.exchange
        assert (exchange.state is SaslState.FAILED) == self.is_dead
        assert exchange.principal == (None if self.proven is None else Principal("User", self.proven))
        if exchange.state is SaslState.AUTHENTICATED:
            assert self.proven is not None
            assert exchange.is_expired == (self.clock.monotonic_ms() - self.proven_ms >= SESSION_MS)


TestSaslMachine = SaslMachine.TestCase


class TokenServer:
    """A mechanism whose credentials end at a time."""

    name = "TOKEN"

    def __init__(self, expires_ms: float | None) -> None:
        self.authenticated: Authenticated | None = None
        self._expires_ms = expires_ms

    def respond(self, message: bytes) -> bytes:
        self.authenticated = Authenticated(Principal("User", "ann"), self._expires_ms)
        return b""


@for_each(
    "max_ms, token_ms, session_ms, has_end",
    [(0, None, 0, False), (5000, None, 5000, True), (0, 3000, 3000, True), (5000, 3000, 3000, True),
     (2000, 3000, 2000, True), (0, -10, 0, True)],
)  # fmt: skip
def test_a_session_ends_with_its_credentials_or_the_setting(max_ms, token_ms, session_ms, has_end):
    clock = ManualClock()
    expires_ms = None if token_ms is None else clock.wall_ms() + token_ms
    exchange = SaslExchange({"TOKEN": OfferedMechanism(lambda: TokenServer(expires_ms), max_ms)}, clock)
    exchange.choose("TOKEN", framed=True)
    respond(exchange, b"")
    assert exchange.session_ms == session_ms
    assert (exchange.ends_ms is not None) == has_end
    assert exchange.is_expired == (token_ms == -10)
    clock.advance(session_ms)
    assert exchange.is_expired == has_end


def authenticated() -> tuple[SaslExchange, ManualClock]:
    clock = ManualClock()
    exchange = SaslExchange(offered(), clock)
    log_in(exchange, "SCRAM-SHA-256")
    clock.advance(1000)
    return exchange, clock


def test_reauthentication_begins_another_session():
    exchange, clock = authenticated()
    clock.advance(SESSION_MS)
    assert exchange.is_expired
    log_in(exchange, "SCRAM-SHA-256")
    assert not exchange.is_expired
    assert exchange.state is SaslState.AUTHENTICATED


@for_each("name, user, password", [("PLAIN", "ann", "secret"), ("SCRAM-SHA-256", "bob", "geheim")])
def test_reauthentication_keeps_mechanism_and_principal(name, user, password):
    exchange, _ = authenticated()
    with pytest.raises(SaslAuthenticationFailed, match="Re-authentication failed"):
        log_in(exchange, name, user, password)
    assert exchange.state is SaslState.FAILED
    assert exchange.principal == Principal("User", "ann")


def test_an_unexpected_error_ends_the_exchange():
    class Broken(TokenServer):
        def respond(self, message: bytes) -> bytes:
            raise RuntimeError("secret")

    exchange = SaslExchange({"TOKEN": OfferedMechanism(lambda: Broken(None))}, ManualClock())
    exchange.choose("TOKEN", framed=True)
    with pytest.raises(RuntimeError):
        exchange.respond(b"")
    assert exchange.state is SaslState.FAILED
    with pytest.raises(KqueueError):
        exchange.respond(b"")
