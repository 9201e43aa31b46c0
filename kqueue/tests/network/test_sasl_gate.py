"""Listeners with SASL over real sockets: what passes before and after authentication."""

from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import SettingError
from kqueue.security.principals import Principal
from kqueue.tests.network.harness import API, connect, request_bytes
from kqueue.tests.network.sasl_clients import (
    MECHANISMS,
    authenticate,
    authenticate_raw,
    in_loop,
    is_served,
    mechanism,
    sasl_serving,
)
from kqueue.tests.thorough import corners
from kqueue.wire.error_codes import ErrorCode

ANN = Principal("User", "ann")
SECRETS = ("secret", "geheim")


def principals(server) -> list[Principal]:
    return [session.principal for session in server.connections.sessions]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("version", [0, 1, 2])
@in_loop
async def test_a_client_authenticates_by_requests(name, version):
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        assert (await client.ask("ApiVersions", 0)).error_code == 0
        response = await authenticate(client, name, version=version)
        assert response.error_code == 0
        assert response.session_lifetime_ms == 0
        assert await is_served(client)
        assert principals(server) == [ANN]


@pytest.mark.parametrize("name", MECHANISMS)
@in_loop
async def test_a_client_authenticates_by_raw_tokens(name):
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        await authenticate_raw(client, name)
        assert await is_served(client)
        assert principals(server) == [ANN]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("ann", "geheim"), ("eve", "secret")])
@in_loop
async def test_wrong_credentials_are_answered_and_the_connection_is_closed(name, user, password, caplog):
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        with caplog.at_level(logging.DEBUG):
            response = await authenticate(client, name, user, password)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == f"Authentication failed: invalid credentials with SASL mechanism {name}"
        assert response.auth_bytes == b""
        assert await client.closed() == b""
        assert not any(secret in caplog.text for secret in SECRETS)
        assert "closed the connection" in caplog.text
        assert "(failure 1 of its address)" in caplog.text


@in_loop
async def test_wrong_raw_credentials_close_the_connection():
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        await client.ask("SaslHandshake", 0, mechanism="PLAIN")
        token = mechanism("PLAIN", "ann", "guess").first()
        client.send_raw(len(token).to_bytes(4, "big") + token)
        assert await client.closed() == b""


@in_loop
async def test_an_unknown_mechanism_is_answered_with_those_of_the_listener():
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        response = await client.ask("SaslHandshake", 1, mechanism="GSSAPI")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == list(MECHANISMS)
        assert await client.closed() == b""


@pytest.mark.parametrize("name", sorted(set(API) - {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}))
@pytest.mark.parametrize("after_handshake", corners([False, True]))
@in_loop
async def test_no_other_api_is_served_before_authentication(name, after_handshake):
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        if after_handshake:
            await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        version = API[name].versions[1]
        client.send_raw(b"\0\0\0\x20" + API[name].key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(28))
        assert await client.closed() == b""
        assert principals(server) == []


@in_loop
async def test_steps_out_of_order_are_refused():
    async with sasl_serving() as server:
        first = await connect(server, "SASL")
        response = await first.ask("SaslAuthenticate", 2, auth_bytes=b"\0ann\0secret")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await first.closed() == b""
        again = await connect(server, "SASL")
        await again.ask("SaslHandshake", 1, mechanism="PLAIN")
        response = await again.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await again.closed() == b""
        versions = await connect(server, "SASL")
        await versions.ask("SaslHandshake", 1, mechanism="PLAIN")
        versions.send("ApiVersions", 0)
        assert await versions.closed() == b""
        many = await connect(server, "SASL")
        for _ in range(2):
            await many.ask("ApiVersions", 0)
        many.send("ApiVersions", 0)
        assert await many.closed() == b""


@in_loop
async def test_after_authentication_both_requests_are_out_of_place_and_do_no_harm():
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        await authenticate(client)
        response = await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        response = await client.ask("SaslAuthenticate", 2, auth_bytes=b"\0bob\0geheim")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)
        assert principals(server) == [ANN]


@in_loop
async def test_a_listener_without_sasl_refuses_both_requests():
    async with sasl_serving() as server:
        client = await connect(server)
        response = await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        response = await client.ask("SaslAuthenticate", 2, auth_bytes=b"\0ann\0secret")
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)
        assert principals(server) == [Principal("User", "ANONYMOUS")]


@in_loop
async def test_nothing_is_received_above_the_limit_before_authentication():
    async with sasl_serving(sasl_server_max_receive_size=4096) as server:
        client = await connect(server, "SASL")
        await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        client.send_raw((4097).to_bytes(4, "big"))
        assert await client.closed() == b""
        other = await connect(server, "SASL")
        await authenticate(other)
        topics = [{"name": "x" * 200}] * 100
        request = API["Metadata"].request_class(topics=[_topic(one["name"]) for one in topics])
        other.send_raw(request_bytes(API["Metadata"], 1, request))
        assert (await other.receive("Metadata", 1))[0] == 1


def _topic(name):
    from kqueue.wire.messages.metadata import MetadataRequestTopic

    return MetadataRequestTopic(name=name)


@pytest.mark.parametrize("framed", [True, False])
@in_loop
async def test_fragments_are_put_together(framed):
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        await client.ask("SaslHandshake", int(framed), mechanism="PLAIN")
        token = mechanism("PLAIN").first()
        if framed:
            request = API["SaslAuthenticate"].request_class(auth_bytes=token)
            data = request_bytes(API["SaslAuthenticate"], 2, request)
        else:
            data = len(token).to_bytes(4, "big") + token
        for byte in data:
            client.send_raw(bytes([byte]))
            await client.writer.drain()
        await client.frame()
        assert await is_served(client)


@in_loop
async def test_pipelined_requests_before_the_answer_are_not_served():
    async with sasl_serving(connection_failed_authentication_delay_ms=50) as server:
        client = await connect(server, "SASL")
        await client.ask("SaslHandshake", 1, mechanism="PLAIN")
        client.send("SaslAuthenticate", 2, auth_bytes=b"\0ann\0guess")
        client.send("SaslAuthenticate", 2, auth_bytes=b"\0ann\0secret")
        client.send("Metadata", 12)
        assert (await client.receive("SaslAuthenticate", 2))[1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.closed() == b""


@in_loop
async def test_a_client_has_limited_time_to_authenticate(caplog):
    async with sasl_serving(kqueue_authentication_timeout_ms=3000) as server:
        silent, slow, quick = [await connect(server, "SASL") for _ in range(3)]
        await slow.ask("SaslHandshake", 1, mechanism="PLAIN")
        await authenticate(quick)
        assert await silent.closed() == b""
        assert await slow.closed() == b""
        assert await is_served(quick)
        assert caplog.text.count("it has not authenticated within 3000 ms") == 2


@in_loop
async def test_tls_and_plain_requests_are_no_way_around_it():
    async with sasl_serving() as server:
        client = await connect(server, "SASL")
        client.send_raw(bytes.fromhex("160301020001000001fc0303"))
        assert await client.closed() == b""
        other = await connect(server, "SASL")
        other.send("Produce", 9)
        assert await other.closed() == b""


@pytest.mark.parametrize("user", ["", "\0", "ANONYMOUS"])
@in_loop
async def test_principals_without_a_name_do_not_authenticate(user):
    async with sasl_serving() as server:
        for name in MECHANISMS:
            client = await connect(server, "SASL")
            response = await authenticate(client, name, user, "secret")
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.closed() == b""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_enabled_mechanisms": ""}, "needs sasl.enabled.mechanisms"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "found GSSAPI"),
        ({"listener_name_sasl_plain_sasl_jaas_config": None}, "PLAIN of listener SASL has no users"),
        ({"listener_name_sasl_plain_sasl_jaas_config": "X required;"}, "expected the login module"),
        ({"listener_name_sasl_plain_sasl_jaas_config": "secret"}, "expected a login module class"),
    ],
)
@in_loop
async def test_settings_that_let_nobody_in_are_refused_at_the_start(settings, message):
    with pytest.raises(SettingError, match=message) as error:
        async with sasl_serving(**settings):
            pass
    assert "secret" not in str(error.value)
