"""The audit log of a broker that serves clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError

import kqueue
from kqueue.security.certificates import Authority
from kqueue.tests.network.harness import connect, until
from kqueue.tests.network.sasl_clients import MECHANISMS, authenticate, authenticate_raw, in_loop, sasl_serving
from kqueue.tests.network.tls_harness import authority, client_context, connect_tls, handshakes, serving_tls


def written(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "kqueue.audit"]


def test_changes_and_denials_are_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kqueue.audit")
    acls = ["User:ANONYMOUS allow create topic:orders", "User:ANONYMOUS allow describe topic:*"]
    with kqueue.Broker(acls=acls) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retries=0, enable_idempotence=False)
        with pytest.raises(KafkaError):
            producer.send("orders", b"x").get(60)
        producer.close()
    events = [(line["api"], line["operation"], line["resource"], line["decision"]) for line in written(caplog)]
    assert events[0] == ("CreateTopics", "CREATE", "TOPIC:orders", "allowed")
    assert set(events[1:]) == {("Produce", "WRITE", "TOPIC:orders", "denied")}
    assert {line["principal"] for line in written(caplog)} == {"User:ANONYMOUS"}
    assert all(line["client"].startswith("127.0.0.1:") for line in written(caplog))


def test_nothing_is_written_without_an_authorizer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kqueue.audit")
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
    assert written(caplog) == []


@pytest.mark.parametrize("name", MECHANISMS)
@in_loop
async def test_failed_authentications_are_in_the_log_without_the_password(name, caplog):
    caplog.set_level(logging.INFO, "kqueue.audit")
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        assert (await authenticate(client, name, "ann", "M4rk3r")).error_code
        client = await connect(server, "SASL")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await authenticate_raw(client, name, "ann", "M4rk3r")
    lines = written(caplog)
    assert [(line["decision"], line["operation"], line["listener"]) for line in lines] == [
        ("authentication failed", name, "SASL")
    ] * 2
    assert "M4rk3r" not in caplog.text


CERTIFICATES = {
    "none": (lambda: None, "peer did not return a certificate"),
    "unknown authority": (lambda: Authority.create("CN=other").issue("CN=ann"), "certificate verify failed"),
    "expired": (lambda: authority().issue("CN=ann", days=-1), "certificate has expired"),
    "no user": (lambda: authority().issue("CN=eve"), "no rule of ssl.principal.mapping.rules matches 'CN=eve'"),
}


@pytest.mark.parametrize(("make", "reason"), CERTIFICATES.values(), ids=list(CERTIFICATES))
@in_loop
async def test_refused_certificates_are_in_the_log(make, reason, tmp_path: Path, caplog):
    caplog.set_level(logging.INFO, "kqueue.audit")
    async with serving_tls(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:CN=ann/ann/") as server:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            client = await connect_tls(server, client_context(make(), tmp_path))
            assert await client.closed() == b""
            await client.close()
        await until(lambda: handshakes(server) == 0)
    [line] = written(caplog)
    assert reason in line["reason"]
    assert (line["decision"], line["operation"], line["listener"]) == ("authentication failed", "TLS", "SSL")
    assert (line["principal"], line["api"], line["resource"]) == (None, "", "")
    assert line["client"].startswith("127.0.0.1:")


@in_loop
async def test_certificates_that_are_accepted_and_what_is_no_tls_are_not_in_the_log(tmp_path: Path, caplog):
    caplog.set_level(logging.INFO, "kqueue.audit")
    async with serving_tls(ssl_client_auth="required") as server:
        client = await connect_tls(server, client_context(authority().issue("CN=ann"), tmp_path))
        await client.ask("ApiVersions", 0)
        await client.close()
        reader, writer = await asyncio.open_connection(*server.bound("SSL"))
        writer.write(b"\x16\x03\x01\xff\xff" + b"\1" * 100)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        await until(lambda: handshakes(server) == 0)
    assert written(caplog) == []
