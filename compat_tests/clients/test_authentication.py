"""Each client proves who it is by each mechanism, and says why where it can't."""

from __future__ import annotations

import logging
import re
import time
from typing import Any, NamedTuple

import pytest

from compat_tests.clients.adapters.contract import AUTHENTICATION, REAUTHENTICATION, Place
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import COLLECT_S, POLL_S, collect
from compat_tests.clients.secured import (
    ADMIN,
    ELSEWHERE,
    EXPIRED,
    MECHANISMS,
    MUTUAL,
    PLAINTEXT,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    SESSION_MS,
    SHORT,
    TLS,
    Secured,
)
from compat_tests.clients.test_admin import Name, Needs
from compat_tests.waits import HangLimit

pytestmark = pytest.mark.one_client

SECONDS = 8
ATTEMPTS_MAX = 16
"""With each broker in about two seconds; who tried again at once would make hundreds."""


@pytest.mark.parametrize("listener", [PLAINTEXT, TLS])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism(
    mechanism: str, listener: str, connect: ClientFactory, secured: Secured, secured_topic: str, needs: Needs
) -> None:
    needs(AUTHENTICATION)
    config = secured.config(connect.client, ADMIN, listener=listener, mechanism=mechanism)
    round_trip(connect, config, secured_topic)


def test_a_client_certificate(connect: ClientFactory, secured: Secured, secured_topic: str, needs: Needs) -> None:
    needs(AUTHENTICATION)
    round_trip(connect, secured.config(connect.client, ADMIN, listener=MUTUAL), secured_topic)


def round_trip(connect: ClientFactory, config: Any, topic: str) -> None:
    """Send, receive, and list topics as who the arguments say."""
    assert connect.producer("", config=config).send(topic, b"value", partition=0).result().offset == 0
    consumer = connect.consumer("", assign=[Place(topic, 0)], config=config)
    assert [record.value for record in collect(consumer, 1)] == [b"value"]
    if not connect.client.version.startswith("2.3"):  # its admin gives up when the end of a TLS handshake comes late
        assert topic in connect.admin("", config).topics()


@pytest.mark.long
def test_sessions_that_end_lose_nothing(
    connect: ClientFactory,
    secured: Secured,
    secured_topic: str,
    name: Name,
    needs: Needs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Producer and consumer work on while their sessions end twice (KIP-368)."""
    needs(AUTHENTICATION)
    caplog.set_level(logging.INFO, "kqueue")
    config = secured.config(connect.client, ADMIN, listener=SHORT, mechanism=SCRAM_SHA_256)
    producer = connect.producer("", config=config)
    consumer = connect.consumer("", assign=[Place(secured_topic, 0)], group=name("group"), config=config)
    secured.forget_requests()
    sent, pending, received = [], [], []
    end = time.monotonic() + 2.4 * SESSION_MS / 1000
    while time.monotonic() < end:
        sent.append(f"value-{len(sent)}".encode())
        pending.append(producer.send(secured_topic, sent[-1], partition=0))
        received += consumer.poll(0.02)
    for one in pending:
        one.result()
    limit = HangLimit(f"{len(sent)} records", COLLECT_S)
    while not set(sent) <= {record.value for record in received}:
        limit.check(len(received))
        received += consumer.poll(POLL_S)
    consumer.commit()
    assert secured.count("SaslHandshake") >= 2
    if REAUTHENTICATION in connect.client.features:
        needs(REAUTHENTICATION)
        assert [record.value for record in received] == sent, "not even sent twice"
        assert "its session has expired" not in broker_log(caplog)


class Failure(NamedTuple):
    """Why a client can't connect.

    Attributes:
        given: arguments of `Secured.config`.
        told: what the client tells: that of every client, or by client.
        logged: what the broker logs; None: the client ends the handshake.
    """

    given: dict[str, Any]
    told: str | dict[str, str]
    logged: str | None


# kafka-python drops what it received with the end of the connection, now and then the answer. Old
# clients send tokens without requests, which have no answer but that.
REFUSED = {
    "kafka-python": "AuthenticationFailed|socket disconnected|Error receiving reply from server",
    "aiokafka": "SaslAuthenticationFailed|Connection at .* closed",
    "confluent-kafka": "Authentication failed: invalid credentials",
}
CLOSED = {
    "kafka-python": "EOF occurred|certificate required|Connection reset|disconnected|Closing",
    "aiokafka": "closed|certificate required|Connection reset",
    "confluent-kafka": "certificate required",
}
FAILURES = {
    "password-PLAIN": Failure({"mechanism": "PLAIN", "password": "a guess"}, REFUSED, "invalid credentials"),
    "password-SCRAM-256": Failure({"mechanism": SCRAM_SHA_256, "password": "a guess"}, REFUSED, "invalid credentials"),
    "password-SCRAM-512": Failure({"mechanism": SCRAM_SHA_512, "password": "a guess"}, REFUSED, "invalid credentials"),
    "unknown-user": Failure(
        {"user": "eve", "mechanism": SCRAM_SHA_256, "password": "x"}, REFUSED, "invalid credentials"
    ),
    "no-certificate": Failure({"user": None, "listener": MUTUAL}, CLOSED, "peer did not return a certificate"),
    "expired": Failure({"listener": EXPIRED}, "certificate has expired|certificate verify failed", None),
    "other-host": Failure({"listener": ELSEWHERE}, "certificate is not valid for|doesn't match|verify failed", None),
}


@pytest.mark.long
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_refused_client_reports_the_reason(
    failure: Failure,
    connect: ClientFactory,
    secured: Secured,
    secured_topic: str,
    needs: Needs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    needs(AUTHENTICATION)
    caplog.set_level(logging.INFO)
    config = secured.config(connect.client, **{"user": ADMIN, **failure.given})
    told = refusal(connect, secured, config, secured_topic, caplog)
    expected = failure.told if isinstance(failure.told, str) else failure.told[connect.client.name]
    assert re.search(expected, told), told
    if failure.logged is not None:
        assert failure.logged in broker_log(caplog)
    assert "a guess" not in broker_log(caplog)


@pytest.mark.parametrize(
    ("changes", "logged"),
    [({"exp": 1_000_000_000}, "it has expired (exp)"), ({"aud": "another"}, "its audience is not an expected one")],
    ids=["expired", "of-another"],
)
def test_a_token_that_does_not_count(
    changes: dict[str, Any],
    logged: str,
    connect: ClientFactory,
    secured: Secured,
    secured_topic: str,
    needs: Needs,
    caplog: pytest.LogCaptureFixture,
) -> None:
    needs(AUTHENTICATION)
    caplog.set_level(logging.INFO)
    token = connect.client.with_token(secured.token(ADMIN, **changes), time.time() + 600)
    config = {**secured.config(connect.client, ADMIN, mechanism="OAUTHBEARER"), **token}
    told = refusal(connect, secured, config, secured_topic, caplog)
    assert re.search("invalid_token|disconnected|Unrecognized response|Unable to request metadata|closed", told), told
    assert logged in broker_log(caplog)


def refusal(connect: ClientFactory, secured: Secured, config: Any, topic: str, caplog: pytest.LogCaptureFixture) -> str:
    """Return all that a client tells that can't connect."""
    reasons: list[str] = []
    impatient = {**config, **connect.client.impatient(reasons)}
    secured.forget_requests()
    with pytest.raises(Exception, match=r"\S") as error:  # each client has others, see `told`
        connect.producer("", config=impatient).send(topic, b"refused", partition=0).result(SECONDS)
    assert secured.count("SaslHandshake") <= ATTEMPTS_MAX * secured.members
    assert secured.end_offset(topic) == 0
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("kqueue")]
    return "\n".join([f"{type(error.value).__name__}: {error.value}", *reasons, *logged])


def broker_log(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("kqueue"))
