"""SaslHandshake: the exchange itself is tested in tests/network/test_sasl_gate.py."""

from __future__ import annotations

from types import SimpleNamespace

from kqueue.api.handlers.sasl_handshake import handle
from kqueue.api.request_context import RequestContext
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import IllegalSaslState, UnsupportedSaslMechanism
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_handshake import SaslHandshakeRequest


class Chosen:
    mechanisms = ("PLAIN",)

    def __init__(self) -> None:
        self.promise: Promise[None] = Promise()
        self.calls: list[tuple[str, bool]] = []

    def choose(self, mechanism: str, *, framed: bool) -> Promise[None]:
        self.calls.append((mechanism, framed))
        return self.promise


@for_each("version", [0, 1])
@for_each(
    "error, code",
    [
        (None, ErrorCode.NONE),
        (UnsupportedSaslMechanism("x"), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (IllegalSaslState("x"), ErrorCode.ILLEGAL_SASL_STATE),
    ],
)
def test_the_response_waits_for_the_choice(version, error, code):
    sasl = Chosen()
    context = RequestContext(SimpleNamespace(), version, connection=SimpleNamespace(sasl=sasl))
    waiting = handle(SaslHandshakeRequest(mechanism="PLAIN"), context)
    assert isinstance(waiting, DelayedOperation)
    if error is None:
        sasl.promise.resolve(None)
    else:
        sasl.promise.fail(error)
    response = waiting.try_complete(False)
    assert (response.error_code, response.mechanisms) == (code, ["PLAIN"])
    assert sasl.calls == [("PLAIN", version == 1)]
