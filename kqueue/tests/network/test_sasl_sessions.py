"""Sessions that end, re-authentication, and tokens, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from kqueue.base.clock import OffsetClock
from kqueue.security.principals import Principal
from kqueue.security.sasl.oauthbearer import OAuthBearerClient
from kqueue.security.sasl.token_validators import UNSECURED_HANDLER
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, encode_credential, make_credential
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import Client, connect
from kqueue.tests.network.sasl_clients import authenticate, authenticate_raw, in_loop, is_served, sasl_serving
from kqueue.tests.security.sasl.token_maker import jwks, signed, unsecured
from kqueue.wire.error_codes import ErrorCode

SHA_512 = SCRAM_MECHANISMS["SCRAM-SHA-512"]
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED


def claims(seconds: float = 60, **more: object) -> dict[str, object]:
    return {"sub": "ann", "iat": time.time(), "exp": time.time() + seconds, **more}


async def send_token(client: Client, token: str):
    await client.ask("SaslHandshake", 1, mechanism="OAUTHBEARER")
    one = OAuthBearerClient(token)
    message: bytes | None = one.first()
    while message is not None:
        response = await client.ask("SaslAuthenticate", 2, auth_bytes=message)
        if response.error_code:
            break
        message = one.respond(response.auth_bytes)
    return response


@pytest.fixture
def provider(tmp_path) -> dict[str, object]:
    file = tmp_path / "keys"
    file.write_text(jwks())
    return {
        "sasl_enabled_mechanisms": "OAUTHBEARER,PLAIN",
        "sasl_oauthbearer_jwks_endpoint_url": file.as_uri(),
        "sasl_oauthbearer_clock_skew_seconds": 0,
    }


@in_loop
async def test_a_signed_token_authenticates_until_it_expires(provider, caplog):
    caplog.set_level(logging.INFO, logger="kqueue")
    clock = OffsetClock()
    async with sasl_serving(clock=clock, **provider) as server:
        client = await connect(server, "SASL")
        token = signed(claims(60))
        response = await send_token(client, token)
        assert response.error_code == 0
        assert 0 < response.session_lifetime_ms <= 60_000
        assert await is_served(client)
        assert [session.principal for session in server.connections.sessions] == [Principal("User", "ann")]
        with clock.frozen():
            clock.move_to(clock.monotonic_ms() + 61_000)
        assert not await is_served(client)
        late = await connect(server, "SASL")
        response = await send_token(late, token)
        assert (response.error_code, response.error_message) == (FAILED, '{"status":"invalid_token"}')
        assert await late.closed() == b""
        assert "its session has expired" in caplog.text
        assert "it has expired (exp) (failure 1 of its address)" in caplog.text
        assert token not in caplog.text


@in_loop
async def test_a_refusal_that_the_client_ignores_is_counted_and_explained(provider, caplog):
    """aiokafka takes the refusal for success, and goes on."""
    caplog.set_level(logging.INFO, logger="kqueue")
    async with sasl_serving(**provider) as server:
        for count in (1, 2):
            client = await connect(server, "SASL")
            await client.ask("SaslHandshake", 1, mechanism="OAUTHBEARER")
            first = OAuthBearerClient(signed(claims(-60))).first()
            response = await client.ask("SaslAuthenticate", 2, auth_bytes=first)
            assert (response.error_code, response.auth_bytes) == (0, b'{"status":"invalid_token"}')
            assert not await is_served(client)
            assert f"it has expired (exp) (failure {count} of its address)" in caplog.text
        assert caplog.text.count('"authentication failed"') == 2


@in_loop
async def test_unsecured_tokens_are_refused_where_the_validator_is_not_named(provider):
    async with sasl_serving(**provider) as server:
        client = await connect(server, "SASL")
        assert (await send_token(client, unsecured(claims()))).error_code == FAILED
    async with sasl_serving(
        sasl_enabled_mechanisms="OAUTHBEARER", sasl_server_callback_handler_class=UNSECURED_HANDLER
    ) as server:
        client = await connect(server, "SASL")
        assert (await send_token(client, unsecured(claims()))).error_code == 0
        assert await is_served(client)


@in_loop
async def test_a_client_authenticates_again_before_and_after_the_end():
    clock = ManualClock()
    async with sasl_serving(clock=clock, connections_max_reauth_ms=1500) as server:
        client = await connect(server, "SASL")
        assert (await authenticate(client, "SCRAM-SHA-256")).session_lifetime_ms == 1500
        clock.advance(999)
        early = await client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
        assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE, "less than a second has passed"
        assert await is_served(client)
        clock.advance(1)
        assert (await authenticate(client, "SCRAM-SHA-256")).session_lifetime_ms == 1500
        clock.advance(1499)
        assert await is_served(client), "the first session would have ended"
        clock.advance(1)
        assert (await authenticate(client, "SCRAM-SHA-256")).error_code == 0
        assert await is_served(client)


@in_loop
async def test_an_expired_session_is_closed_at_the_next_request():
    clock = ManualClock()
    async with sasl_serving(clock=clock, connections_max_reauth_ms=300) as server:
        framed, raw = await connect(server, "SASL"), await connect(server, "SASL")
        await authenticate(framed)
        await authenticate_raw(raw)
        assert await is_served(framed)
        assert await is_served(raw)
        clock.advance(300)
        assert len(server.connections.sessions) == 2, "it is not closed without a request"
        assert not await is_served(framed)
        assert not await is_served(raw)


@pytest.mark.parametrize(
    ("name", "user", "password"),
    [("PLAIN", "bob", "geheim"), ("PLAIN", "ann", "guess"), ("SCRAM-SHA-512", "ann", "secret")],
)
@in_loop
async def test_another_principal_or_mechanism_or_a_wrong_password_ends_the_connection(name, user, password):
    async with sasl_serving(connections_max_reauth_ms=60_000) as server:
        client = await connect(server, "SASL")
        await authenticate(client)
        await asyncio.sleep(1.05)
        response = await authenticate(client, name, user, password)
        assert response.error_code == FAILED
        assert await client.closed() == b""


@in_loop
async def test_while_it_authenticates_again_a_client_is_not_served():
    async with sasl_serving(connections_max_reauth_ms=60_000) as server:
        client = await connect(server, "SASL")
        await authenticate(client)
        await asyncio.sleep(1.05)
        await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        client.send("Metadata", 12)
        assert await client.closed() == b""


async def salt_of(server, user: str, mechanism: str = "SCRAM-SHA-256") -> str:
    client = await connect(server, "SASL")
    await client.ask("SaslHandshake", 1, mechanism=mechanism)
    response = await client.ask("SaslAuthenticate", 2, auth_bytes=f"n,,n={user},r=abc".encode())
    return response.auth_bytes.decode().partition("s=")[2]


@in_loop
async def test_salts_of_known_and_unknown_users_outlive_a_restart(tmp_path):
    salts = []
    for _ in range(2):
        async with sasl_serving(folder=tmp_path) as server:
            salts.append([await salt_of(server, user) for user in ("ann", "bob", "eve", "mallory")])
    assert salts[0] == salts[1]
    assert len(set(salts[0])) == 4


@in_loop
async def test_unknown_users_have_the_iterations_that_users_have(tmp_path):
    file = tmp_path / "users"
    lines = [f"u{number}={encode_credential(SHA_512, make_credential(SHA_512, 'secret', 9000))}" for number in range(3)]
    file.write_text("\n".join(lines))
    own = "listener_name_sasl_scram-sha-512_"
    async with sasl_serving(**{f"{own}kqueue_sasl_users_file": str(file), f"{own}sasl_jaas_config": None}) as server:
        asked = {user: await salt_of(server, user, "SCRAM-SHA-512") for user in ("u0", "u1", "eve", "mallory")}
        assert {answer.rpartition("i=")[2] for answer in asked.values()} == {"9000"}
        assert len(set(asked.values())) == 4
        assert {user: await salt_of(server, user, "SCRAM-SHA-512") for user in asked} == asked
