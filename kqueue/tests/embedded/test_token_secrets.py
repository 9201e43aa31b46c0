"""Tokens, private keys and passwords of one broker that has them all: whatever clients do with
them, nothing that the broker writes, keeps on disk or shows has one in clear.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.app import kqueue as main
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.security.certificates import LOOPBACK_NAMES, Authority
from kqueue.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from kqueue.security.sasl.oauthbearer import OAuthBearerClient
from kqueue.tests.embedded.test_secrets import MARK, holders, node_of
from kqueue.tests.network.harness import Client, connect
from kqueue.tests.network.sasl_clients import authenticate, in_loop
from kqueue.tests.network.test_sasl_accounts import send_token as send_delegation_token
from kqueue.tests.network.test_sasl_accounts import set_password
from kqueue.tests.security.sasl.token_maker import ec_key, jwks, signed
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_topics import CreatableTopic
from kqueue.wire.messages.describe_configs import DescribeConfigsResource
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
BROKER = 4


class Place(NamedTuple):
    """Bytes that may have no secret, and where they are."""

    name: str
    content: bytes


def forms(secret: bytes) -> set[bytes]:
    """Return what a secret looks like where somebody writes it."""
    spellings = {secret, secret.hex().encode(), base64.b64encode(secret), base64.urlsafe_b64encode(secret).rstrip(b"=")}
    return spellings | {repr(secret)[2:-1].encode(), secret.replace(b"\n", b"\\n")}


def leaks(secrets: Mapping[str, bytes], places: list[Place]) -> list[str]:
    """Return which secret is where."""
    return [
        f"{name} in {place.name}"
        for name, secret in secrets.items()
        for place in places
        if any(form in place.content for form in forms(secret))
    ]


def settings(folder: Path, private_key: str, certificate: str) -> dict[str, object]:
    (folder / "keys").write_text(jwks())
    users = f'username="admin" password="{MARK}own" user_ann="{MARK}plain" user_eve="{MARK}eve";'
    return {
        "listeners": "SASL://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,TLS:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": private_key,
        "ssl.keystore.certificate.chain": certificate,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users}",
        "listener.name.tls.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users}",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {users}",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f'{OAUTHBEARER_MODULE} required x="{MARK}option";',
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys").as_uri(),
        "listener.name.sasl.oauthbearer.sasl.oauthbearer.client.credentials.client.secret": f"{MARK}client",
        "delegation.token.secret.key": f"{MARK}brokers",
        "authorizer.class.name": "standard",
        "super.users": "User:ann",
        "connection.failed.authentication.delay.ms": 1,
    }


async def send_bearer_token(client: Client, token: str) -> int:
    await client.ask("SaslHandshake", 1, mechanism="OAUTHBEARER")
    one = OAuthBearerClient(token)
    message: bytes | None = one.first()
    while message is not None:
        response = await client.ask("SaslAuthenticate", 2, auth_bytes=message)
        if response.error_code:
            break
        message = one.respond(response.auth_bytes)
    return int(response.error_code)


async def use_everything(broker: kqueue.Broker, secrets: dict[str, bytes]) -> list[Place]:
    """Authenticate by each mechanism, rightly and wrongly, and change what is stored; note the
    secrets that come to be. Returns what clients were shown, and the broker's objects meanwhile.
    """
    server: Any = broker._server
    clients = [await connect(server, "SASL") for _ in range(8)]
    ann, eve, bearer, forged, by_token, by_wrong_token, stored, wrong = clients
    assert (await authenticate(ann, "PLAIN", "ann", f"{MARK}plain")).error_code == 0
    assert (await authenticate(eve, "SCRAM-SHA-256", "eve", f"{MARK}eve")).error_code == 0
    now_s = int(time.time())
    claims = {"sub": "eve", "iat": now_s, "exp": now_s + 600, "jti": f"{MARK}claim"}
    for client, name, key, code in ((bearer, "token", None, 0), (forged, "forged token", ec_key("one"), FAILED)):
        token = signed(claims, key, "RS256" if key is None else "ES256")
        for part, text in zip(("claims", "signature"), token.split(".")[1:], strict=True):
            secrets[f"{part} of the {name}"] = text.encode()
        assert await send_bearer_token(client, token) == code
    created = await ann.ask("CreateDelegationToken", 3, max_lifetime_ms=600_000)
    secrets["HMAC"] = created.hmac
    assert (await ann.ask("RenewDelegationToken", 2, hmac=created.hmac, renew_period_ms=500_000)).error_code == 0
    described = await ann.ask("DescribeDelegationToken", 3, owners=None)
    assert [row.hmac for row in described.tokens] == [created.hmac]  # its owner may see it
    assert (await send_delegation_token(by_token, created.token_id, created.hmac)).error_code == 0
    failed = await send_delegation_token(by_wrong_token, created.token_id, created.hmac[::-1])
    assert failed.error_code == FAILED
    await set_password(ann, "carl", "SCRAM-SHA-256", f"{MARK}carl")
    assert (await authenticate(stored, "SCRAM-SHA-256", "carl", f"{MARK}carl")).error_code == 0
    refused = await authenticate(wrong, "PLAIN", "carl", f"{MARK}wrong")
    assert refused.error_code == FAILED
    for client, code in ((ann, ErrorCode.NONE), (eve, ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
        topic = CreatableTopic(name=f"t{int(code)}", num_partitions=1, replication_factor=1)
        assert (await client.ask("CreateTopics", 7, topics=[topic])).topics[0].error_code == code
    part = PartitionProduceData(index=0, records=memoryview(build_batch([Record(0, 0, None, b"x", (), -1)])))
    written = TopicProduceData(name="t0", partition_data=[part])
    assert (await ann.ask("Produce", 9, acks=-1, timeout_ms=9_000, topic_data=[written])).responses
    row = DescribeConfigsResource(resource_type=BROKER, resource_name=node_of(broker), configuration_keys=None)
    configs = await ann.ask("DescribeConfigs", 4, resources=[row], include_synonyms=True, include_documentation=True)
    shown = [failed.error_message, refused.error_message, configs]
    assert "sasl.jaas.config" in repr(configs)
    assert "delegation.token.secret.key" in repr(configs)
    places = [Place("an answer", repr(shown).encode()), Place("repr", holders(broker).encode())]
    for client in clients:
        await client.close()
    return places


def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    for record in caplog.records:
        if record.name.startswith("kqueue"):
            text = f"{record.getMessage()}\n{record.__dict__!r}\n{record.exc_text}"
            yield Place(f"the log of {record.name}", text.encode())


def files(folder: Path) -> Iterator[Place]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield Place(path.name, path.read_bytes())


def dumped(folder: Path) -> Iterator[Place]:
    """Return the output of `kqueue log dump` for each partition."""
    for log in sorted({path.parent for path in folder.rglob("*.log") if path.parent != folder}):
        result = CliRunner().invoke(main, ["log", "dump", str(log), "--print-data-log"])
        assert result.exit_code == 0, result.output
        yield Place(f"the dump of {log.name}", result.output.encode())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_token_key_or_password_is_anywhere_in_clear(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kqueue")
    data = tmp_path / "data"
    pair = Authority.create().issue("broker", hosts=LOOPBACK_NAMES)
    lines = pair.key.splitlines()
    secrets = {"a password": MARK.encode(), "the private key": lines[1].encode(), "the whole key": pair.key.encode()}
    given = settings(tmp_path, pair.key, pair.certificate)
    with kqueue.Broker(data, settings=given) as broker:
        places: list[Place] = []

        @in_loop
        async def use() -> None:
            places.extend(await use_everything(broker, secrets))

        use()
        requests = broker.requests()
        assert {"SaslAuthenticate", "RenewDelegationToken", "AlterUserScramCredentials"} <= {
            request.api for request in requests
        }
        for request in requests:
            text = f"{request}{request!r}{request.body!r}{request.errors}"
            places.append(Place(f"broker.requests: {request.api}", text.encode()))
        places += files(data)
    places += [*files(data), *dumped(data), *logged(caplog)]
    names = {place.name for place in places}
    assert {"the log of kqueue.audit", "the log of kqueue.server", "the dump of t0-0", "kqueue.db"} <= names
    audited = b"".join(place.content for place in places if place.name == "the log of kqueue.audit")
    assert all(decision in audited for decision in (b'"allowed"', b'"denied"', b'"authentication failed"'))
    assert leaks(secrets, places) == []
    assert leaks({"HMAC": b"\x00\n"}, [Place("a repr", b"b'\\x00\\n'")]) == ["HMAC in a repr"]  # it would be found


def test_neither_the_check_of_settings_nor_its_errors_show_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Authority.create().issue("broker", hosts=LOOPBACK_NAMES)
    given = settings(tmp_path, pair.key, pair.certificate) | {"log.dirs": tmp_path / "data"}
    file = tmp_path / "server.properties"
    secrets = {"a password": MARK.encode(), "the private key": pair.key.splitlines()[1].encode()}
    outputs = []
    for more in ({}, {"ssl.keystore.certificate.chain": f"{MARK}no certificate"}, {"ssl.keystore.key": pair.key[:-40]}):
        values = {name: str(value).replace("\n", "\\n") for name, value in (given | more).items()}
        file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        result = CliRunner().invoke(main, ["serve", str(file), "--check"])
        outputs.append(Place(f"the check with {sorted(more)}", f"{result.output}{result.exception!r}".encode()))
        assert result.exit_code == (2 if more else 0), result.output
    assert leaks(secrets, outputs + list(logged(caplog))) == []
