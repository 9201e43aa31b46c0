"""Users and delegation tokens of the metadata store, as clients authenticate by them over real
sockets.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

import kqueue
from kqueue.client import Client as BlockingClient
from kqueue.client.calls.scram_users import SaltedPassword
from kqueue.security.principals import Principal
from kqueue.security.sasl.scram import ScramClient
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, salted_password
from kqueue.tests.network.harness import Client, connect
from kqueue.tests.network.sasl_clients import SETTINGS, authenticate, in_loop, is_served, sasl_serving
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
KEY = {"delegation_token_secret_key": "the brokers' key"}


async def connected(server: Any, name: str = "PLAIN", user: str = "ann", password: str = "secret") -> Client:
    client = await connect(server, "SASL")
    assert (await authenticate(client, name, user, password)).error_code == 0
    return client


async def outcome(server: Any, name: str, user: str, password: str) -> int:
    client = await connect(server, "SASL")
    return (await authenticate(client, name, user, password)).error_code


async def set_password(admin: Client, user: str, name: str, password: str) -> None:
    mechanism = SCRAM_MECHANISMS[name]
    row = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=4096,
        salt=b"salt",
        salted_password=salted_password(mechanism, password.encode(), b"salt", 4096),
    )
    response = await admin.ask("AlterUserScramCredentials", 0, upsertions=[row])
    assert [result.error_code for result in response.results] == [0]


async def send_token(client: Client, token_id: str, mac: bytes, *, by_token: bool = True) -> Any:
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    await client.ask("SaslHandshake", 1, mechanism=mechanism.name)
    one = ScramClient(mechanism, token_id, base64.b64encode(mac).decode(), by_token=by_token)
    message: bytes | None = one.first()
    while message is not None:
        response = await client.ask("SaslAuthenticate", 2, auth_bytes=message)
        if response.error_code:
            break
        message = one.respond(response.auth_bytes)
    return response


@pytest.mark.parametrize("name", list(SCRAM_MECHANISMS))
@in_loop
async def test_a_user_of_the_store_authenticates_until_it_is_deleted(name):
    async with sasl_serving() as server:
        admin = await connected(server)
        assert await outcome(server, name, "carl", "karo") == FAILED
        await set_password(admin, "carl", name, "karo")
        assert await outcome(server, name, "carl", "karo") == 0
        assert await outcome(server, name, "carl", "pik") == FAILED
        other = next(one for one in SCRAM_MECHANISMS if one != name)
        assert await outcome(server, other, "carl", "karo") == FAILED
        await set_password(admin, "carl", name, "pik")
        assert await outcome(server, name, "carl", "karo") == FAILED
        before = await connected(server, name, "carl", "pik")
        deletion = ScramCredentialDeletion(name="carl", mechanism=SCRAM_MECHANISMS[name].number)
        response = await admin.ask("AlterUserScramCredentials", 0, deletions=[deletion])
        assert [result.error_code for result in response.results] == [0]
        assert await outcome(server, name, "carl", "pik") == FAILED
        assert await is_served(before)  # as in Kafka


@in_loop
async def test_a_token_authenticates_as_its_owner_until_it_is_ended():
    async with sasl_serving(**KEY) as server:
        ann = await connected(server)
        created = await ann.ask("CreateDelegationToken", 3, max_lifetime_ms=60_000)
        assert created.error_code == 0
        client = await connect(server, "SASL")
        response = await send_token(client, created.token_id, created.hmac)
        assert response.error_code == 0
        assert 0 < response.session_lifetime_ms <= 60_000
        assert await is_served(client)
        assert {session.principal for session in server.connections.sessions} == {Principal("User", "ann")}
        for request, fields in (
            ("CreateDelegationToken", {}),
            ("RenewDelegationToken", {"hmac": created.hmac}),
            ("ExpireDelegationToken", {"hmac": created.hmac}),
            ("DescribeDelegationToken", {}),
        ):
            refused = await client.ask(request, 2, **fields)
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        ended = await ann.ask("ExpireDelegationToken", 2, hmac=created.hmac, expiry_time_period_ms=-1)
        assert ended.error_code == 0
        late = await connect(server, "SASL")
        assert (await send_token(late, created.token_id, created.hmac)).error_code == FAILED


@in_loop
async def test_a_token_is_no_user_and_a_user_is_no_token():
    async with sasl_serving(**KEY) as server:
        ann = await connected(server)
        created = await ann.ask("CreateDelegationToken", 3, max_lifetime_ms=-1)
        for token_id, mac, by_token in (
            (created.token_id, created.hmac, False),
            (created.token_id, created.hmac[:-1], True),
            ("other", created.hmac, True),
        ):
            client = await connect(server, "SASL")
            assert (await send_token(client, token_id, mac, by_token=by_token)).error_code == FAILED
        await set_password(ann, "carl", "SCRAM-SHA-256", base64.b64encode(b"karo").decode())
        client = await connect(server, "SASL")
        assert (await send_token(client, "carl", b"karo", by_token=False)).error_code == 0
        client = await connect(server, "SASL")
        assert (await send_token(client, "carl", b"karo", by_token=True)).error_code == FAILED


@in_loop
async def test_clients_of_a_listener_without_authentication_have_no_tokens():
    async with sasl_serving(**KEY) as server:
        client = await connect(server, "PLAINTEXT")
        refused = await client.ask("CreateDelegationToken", 3)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@for_each("name", list(SCRAM_MECHANISMS))
def test_kafka_python_authenticates_as_a_user_of_the_store(name: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    settings = {setting.replace("_", "."): value for setting, value in SETTINGS.items() if "jaas" not in setting}
    settings["sasl.enabled.mechanisms"] = name
    mechanism = SCRAM_MECHANISMS[name]
    with kqueue.Broker(settings=settings) as broker, BlockingClient(address(broker, "PLAINTEXT")) as admin:
        salted = salted_password(mechanism, b"karo", b"salt", 4096)
        admin.cluster.set_scram_password("carl", SaltedPassword(mechanism.number, 4096, b"salt", salted))
        login = {
            "bootstrap_servers": address(broker, "SASL"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": name,
            "sasl_plain_username": "carl",
        }
        with KafkaProducer(**login, sasl_plain_password="karo") as producer:
            producer.send("t", b"value").get(60)
        consumer = KafkaConsumer("t", **login, sasl_plain_password="karo", auto_offset_reset="earliest")
        assert next(iter(consumer)).value == b"value"
        consumer.close()


def address(broker: kqueue.Broker, listener: str) -> str:
    host, port = broker._server.broker.identity.endpoints(listener)
    return f"{host}:{port}"
