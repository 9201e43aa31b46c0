"""Authentication at other brokers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kqueue.interbroker.contract import PeerCallback
from kqueue.network.peer_authentication import PeerAuthentication
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.network.peer_harness import FETCH, PeerHarness, fetch, peered
from kqueue.tests.network.peer_tls_harness import (
    AUTHORITY,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    TlsBroker,
    add,
    security,
    serve_sasl,
)
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeResponse


def test_requests_follow_the_authentication(tmp_path: Path) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path, protocol="SASL_SSL")
        pem = AUTHORITY.issue("CN=1", hosts=["127.0.0.1"]).pem
        broker = TlsBroker(pem, tmp_path, serve_sasl("secret"))
        await add(harness, broker)
        await harness.send(fetch()).value()
        keys = [key for key, *_ in broker.requests]
        assert keys == [18, SASL_HANDSHAKE, SASL_AUTHENTICATE, FETCH]

    peered(test)


def test_a_session_authenticates_again_before_it_ends(tmp_path: Path) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path, protocol="SASL_PLAINTEXT")
        broker = await harness.broker(serve_sasl("secret", session_ms=10_000))
        for _ in range(4):
            await harness.send(fetch()).value()
            harness.pass_ms(4_600)  # the second request comes after 9.2 s, which is before the end
        assert broker.connections == 1
        keys = [key for key, *_ in broker.requests]
        again = [SASL_HANDSHAKE, SASL_AUTHENTICATE]
        assert keys == [18, *again, FETCH, FETCH, *again, FETCH, FETCH]

    peered(test)


def test_a_wrong_password_is_one_line_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path, protocol="SASL_PLAINTEXT", password="guessed")
        broker = await harness.broker(serve_sasl("secret"))
        for _ in range(3):
            assert "it refuses the credentials" in str(await harness.send(fetch()).error())
            harness.pass_ms(2000)
        assert FETCH not in [key for key, *_ in broker.requests]

    caplog.set_level(logging.INFO, "kqueue")
    peered(test)
    assert "guessed" not in caplog.text
    lines = [record.getMessage() for record in caplog.records if record.name == "kqueue.server"]
    assert len(lines) == 1
    assert "user broker by PLAIN, see sasl.jaas.config of listener SASL_PLAINTEXT" in lines[0]


def test_a_refusal_is_known_before_another_job_runs(tmp_path: Path) -> None:
    """A broker closes the connection after a refusal, which would be the reason then."""
    jobs, callbacks, failures = SteppedJobs(), list[PeerCallback](), list[str]()
    authentication = PeerAuthentication(
        security(tmp_path, protocol="SASL_PLAINTEXT"),
        jobs,
        lambda request, answered: callbacks.append(answered),
        done=lambda lifetime_ms: failures.append("authenticated"),
        failed=failures.append,
    )
    authentication.start()
    callbacks.pop()(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert jobs.step()
    callbacks.pop()(SaslAuthenticateResponse(error_code=58, error_message="no such user", auth_bytes=b""))
    [reason] = failures
    assert reason.endswith("it refuses the credentials: no such user")
