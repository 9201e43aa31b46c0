"""The connections of listeners with SASL: who has not authenticated may do nothing else.

`SaslGate` takes the place of the dispatcher in `Session.start` until the client has authenticated,
and again while it re-authenticates. Handlers reach it as `SaslConnection`; tokens without requests
(SaslHandshake version 0) it takes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.api.sasl_connection import SaslAnswer
from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError
from kqueue.base.jobs import IoJob
from kqueue.base.promise import Promise
from kqueue.base.timers import Timer
from kqueue.broker.access.salt_secret import SaltSecret
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import Chunks, Connection
from kqueue.network.responses import DeferredResponse
from kqueue.security.audit import AuditEvent, Decision
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.sasl.config import FAILURE_DELAY_MS, RECEIVE_BYTES_MAX, TIMEOUT_MS
from kqueue.security.sasl.contract import SlowStep
from kqueue.security.sasl.exchange import SaslExchange, SaslState
from kqueue.security.sasl.failures import AuthenticationFailures, delay_ms_of
from kqueue.security.sasl.mechanisms import MechanismSources, SaslListenerConfig, offered_mechanisms
from kqueue.security.sasl.token_validators import JwksConfig
from kqueue.security.sasl.tokens import SigningKeys
from kqueue.wire.apis import API_VERSIONS, BY_KEY
from kqueue.wire.frame import LENGTH

if TYPE_CHECKING:
    from kqueue.broker.access.security import BrokerSecurity
    from kqueue.network.session import Session

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_HANDSHAKE_KEY = SASL_HANDSHAKE.to_bytes(2, "big")
API_VERSIONS_MAX = 2
"""So often a client may ask before its handshake: again after an unsupported version."""


class SaslAuthentication:
    """The objects that all authenticating connections of a broker share."""

    def __init__(
        self,
        config: Config,
        registry: ConnectionRegistry,
        purgatory: Purgatory,
        security: BrokerSecurity,
        salt_secret: SaltSecret,
    ) -> None:
        self.config = config
        self.registry = registry
        self.purgatory = purgatory
        made_up = MadeUpCredentials(salt_secret, [security.scram.forms])
        self.sources = MechanismSources(security.find_scram_account, made_up, self._open_keys, registry.clock)
        self.failures = AuthenticationFailures(registry.clock)

    def _open_keys(self, config: JwksConfig) -> SigningKeys:
        from kqueue.network.jwks import JwksKeys  # on use: other mechanisms do not need it

        return JwksKeys(config, self.registry.jobs, self.registry.call_later)


class SaslListener:
    """The authentication of one listener's clients. Raises SettingError: its settings are wrong."""

    def __init__(self, shared: SaslAuthentication, name: str) -> None:
        self.shared = shared
        settings = SaslListenerConfig(shared.config, name)
        self.offered = offered_mechanisms(settings, shared.sources)
        largest: int = shared.config.of_listener(name, RECEIVE_BYTES_MAX)
        self.timeout_ms: int = shared.config.of_listener(name, TIMEOUT_MS)
        self.request_bytes_max = min(largest, shared.registry.limits.request_bytes)

    def begin(self, session: Session) -> None:
        """Have a new connection authenticate first."""
        SaslGate(session, self)


class _Failure(NamedTuple):
    """A failed authentication: the `number`-th of its address, `reason` is logged."""

    number: int
    reason: str


class SaslGate:
    """The authentication of one connection; a `SaslConnection`."""

    __slots__ = ("_api_versions", "_deadline", "_exchange", "_failure", "_listener", "_session", "_shared")

    def __init__(self, session: Session, listener: SaslListener) -> None:
        self._session = session
        self._listener = listener
        self._shared = listener.shared
        self._exchange = SaslExchange(listener.offered, listener.shared.registry.clock)
        self._api_versions = 0
        self._failure: _Failure | None = None  # that was counted already
        self._deadline: Timer | None = self._shared.registry.call_later(listener.timeout_ms, self._too_late)
        session.sasl = self
        session.start = self.start
        session.receive_buffer.request_bytes_max = listener.request_bytes_max

    # --- requests

    def start(self, frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        """Start what a client may send before it has authenticated; anything else closes the
        connection.
        """
        exchange = self._exchange
        if exchange.state is SaslState.AUTHENTICATE and not exchange.framed:
            return self._start_token(bytes(frame))
        key = int.from_bytes(frame[:2], "big") if len(frame) >= 2 else -1
        if key == API_VERSIONS and exchange.state is SaslState.HANDSHAKE and self._api_versions < API_VERSIONS_MAX:
            self._api_versions += 1
        elif key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            api = BY_KEY.get(key)
            sent = f"a request of the API {key}" if api is None else api.name
            exchange.fail()
            expected = f"it has not authenticated: expected {SaslState.HANDSHAKE.value}, found {sent}"
            self._close(expected if self._failure is None else self._failure.reason)
            return None
        return self._shared.registry.start(frame, connection)

    def _start_authenticated(self, frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        """Start a request of a session that has an end."""
        if frame[:2] != _HANDSHAKE_KEY and self._exchange.is_expired:
            reason = "its session has expired (connections.max.reauth.ms, or its credentials)"
            self._session.cut_off(reason, event=events.CONNECTION_ENDED)
            return None
        return self._shared.registry.start(frame, connection)

    def _start_token(self, token: bytes) -> DeferredResponse:
        promise = self.respond(token)
        session = self._session

        def done(answer: SaslAnswer) -> None:
            deferred.finish([LENGTH.pack(len(answer.token)) + answer.token])
            session.response_ready()

        def failed(error: Exception) -> None:
            """Send nothing: there is no message for errors, and `_fail` closes the connection."""

        deferred = DeferredResponse(done, failed)
        operation = DelayedOperation((promise,), None, lambda expired: promise.result() if promise.done else None)
        deferred.watch(self._shared.purgatory, operation)
        if promise.done:
            self._shared.purgatory.wake(promise)
        return deferred

    # --- steps of the exchange

    @property
    def mechanisms(self) -> list[str]:
        """See `SaslConnection`."""
        return self._exchange.mechanisms

    def choose(self, mechanism: str, *, framed: bool) -> Promise[None]:
        """See `SaslConnection`."""
        promise: Promise[None] = Promise()

        def step() -> None:
            self._exchange.choose(mechanism, framed=framed)
            self._session.start = self.start
            promise.resolve(None)

        self._run(step, promise)
        return promise

    def respond(self, token: bytes) -> Promise[SaslAnswer]:
        """See `SaslConnection`."""
        promise: Promise[SaslAnswer] = Promise()

        def step() -> None:
            answer = self._exchange.respond(token)
            if isinstance(answer, SlowStep):
                self._submit(answer, promise)
            else:
                self._answered(answer, promise)

        self._run(step, promise)
        return promise

    def _submit(self, slow: SlowStep, promise: Promise[SaslAnswer]) -> None:
        def finish(result: Any, error: BaseException | None) -> None:
            def step() -> None:
                if error is not None:
                    self._exchange.fail()
                    raise error
                self._answered(slow.finish(result), promise)

            self._run(step, promise)
            self._shared.purgatory.wake(promise)

        self._shared.registry.jobs.submit(IoJob("authenticate a client", slow.run, finish, "authentication"))

    def _answered(self, token: bytes, promise: Promise[SaslAnswer]) -> None:
        exchange = self._exchange
        if exchange.state is not SaslState.AUTHENTICATED:
            if exchange.refusal is not None:  # whether the client acknowledges it or not
                self._failure = self._count(exchange.refusal)
            promise.resolve(SaslAnswer(token))
            return
        session, registry = self._session, self._shared.registry
        assert exchange.principal is not None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        session.principal = exchange.principal
        session.call = None
        session.start = registry.start if exchange.ends_ms is None else self._start_authenticated
        session.receive_buffer.request_bytes_max = registry.limits.request_bytes
        promise.resolve(SaslAnswer(token, exchange.session_ms))

    def _run(self, step: Callable[[], None], promise: Promise[Any]) -> None:
        """Run a step. What it raises fails `promise`: at once, or after a delay, if the connection
        ends with it.
        """
        try:
            step()
        except KqueueError as error:
            if self._exchange.state is SaslState.FAILED:
                self._fail(error, promise)
            else:
                promise.fail(error)
        except Exception as error:
            self._exchange.fail()
            address = self._session.address
            self._shared.registry.client_log.log(
                events.AUTHENTICATION_FAILED,
                address,
                "the authentication of %s failed with an unexpected error",
                client=address,
                exc_info=error,
            )
            self._fail(SaslAuthenticationFailed("Authentication failed: the broker could not check it"), promise)

    def _fail(self, error: KqueueError, promise: Promise[Any]) -> None:
        shared = self._shared
        failure = self._failure or self._count(error)

        def end() -> None:
            promise.fail(error)
            shared.purgatory.wake(promise)
            # Behind the wake: the response with the error leaves before the connection is closed.
            shared.purgatory.defer(lambda: self._close(failure.reason))

        shared.registry.call_later(delay_ms_of(failure.number, shared.config[FAILURE_DELAY_MS]), end)

    def _count(self, error: KqueueError) -> _Failure:
        """Count and audit a failed authentication."""
        shared, session = self._shared, self._session
        count = shared.failures.count(session.host)
        # The name is one that the listener offers: of another one it is empty.
        shared.registry.authentication_failures[session.listener, self._exchange.mechanism] += 1
        detail = getattr(error, "detail", "") or str(error)
        if shared.registry.audit is not None:
            shared.registry.audit.write(
                AuditEvent(
                    Decision.FAILED,
                    None,
                    session.address,
                    session.listener,
                    "SaslAuthenticate",
                    self._exchange.mechanism,
                    reason=detail,
                )
            )
        return _Failure(count, f"{detail} (failure {count} of its address)")

    def _too_late(self) -> None:
        self._exchange.fail()
        self._close(f"it has not authenticated within {self._listener.timeout_ms} ms ({TIMEOUT_MS})")

    def _close(self, reason: str) -> None:
        self._session.cut_off(reason)
