"""How handlers find the authentication of a connection."""

from __future__ import annotations

from types import SimpleNamespace

from kqueue.api.request_context import RequestContext
from kqueue.api.sasl_connection import SaslAnswer, sasl_of


def test_only_connections_of_listeners_with_sasl_have_one():
    gate = object()
    broker = SimpleNamespace()
    assert sasl_of(RequestContext(broker, 1, connection=SimpleNamespace(sasl=gate))) is gate
    assert sasl_of(RequestContext(broker, 1, connection=SimpleNamespace(sasl=None))) is None
    assert sasl_of(RequestContext(broker, 1)) is None
    assert SaslAnswer(b"x").session_ms == 0
