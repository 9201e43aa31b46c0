"""Harness for connections to other brokers by TLS and SASL: scripted brokers with certificates."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

from kqueue.config.listeners import parse_listeners
from kqueue.config.properties import SourcedValue, make_config
from kqueue.network.peer_security import PeerSecurity
from kqueue.security.certificates import Authority, write_private
from kqueue.security.jaas import PLAIN_MODULE
from kqueue.security.sasl.passwords import Passwords
from kqueue.security.sasl.plain import PlainServer
from kqueue.tests.network.peer_harness import (
    PeerHarness,
    ScriptedBroker,
    Serve,
    echo,
    response_frame,
)
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from kqueue.wire.messages.sasl_handshake import SaslHandshakeResponse

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
AUTHORITY = Authority.create()
OTHER_AUTHORITY = Authority.create("CN=other CA")


def security(folder: Path, *, protocol: str = "SSL", password: str = "secret", **more: object) -> PeerSecurity:
    """What the settings of a broker say, whose authority is `AUTHORITY`."""
    write_private(folder / "ca.pem", AUTHORITY.certificate)
    write_private(folder / "own.pem", AUTHORITY.issue("CN=broker-0", hosts=["127.0.0.1"]).pem)
    settings: dict[str, object] = {
        "kqueue.cluster.store": "memory",
        "listeners": f"{protocol}://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "own.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="broker" password="{password}";'
        ),
        **more,
    }
    config = make_config({name: SourcedValue(value, "test") for name, value in settings.items()})
    return PeerSecurity.of(parse_listeners(config)[0], config)


class TlsBroker(ScriptedBroker):
    """A scripted broker with a certificate."""

    def __init__(self, pem: str, folder: Path, serve: Serve) -> None:
        super().__init__(serve)
        path = folder / "broker.pem"
        write_private(path, pem)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(path)

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=self.context)
        self.port = self._server.sockets[0].getsockname()[1]


async def serve_echo(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await broker.negotiate(reader, writer)
    while True:
        key, version, correlation_id, body = await broker.request(reader)
        writer.write(response_frame(key, version, correlation_id, echo(key, body)))


def serve_sasl(password: str, session_ms: int = 0) -> Serve:
    """Serve PLAIN, for every authentication on a connection; a refusal ends it, as in a broker."""

    def respond(key: int, body: Any) -> object:
        if key == SASL_HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"], error_code=0 if body.mechanism == "PLAIN" else 33)
        if key != SASL_AUTHENTICATE:
            return echo(key, body)
        server = PlainServer(Passwords({"broker": password}))
        try:
            server.respond(bytes(body.auth_bytes))
        except Exception as error:
            return SaslAuthenticateResponse(error_code=58, error_message=str(error))
        return SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=session_ms)

    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        while True:
            key, version, correlation_id, body = await broker.request(reader)
            response = respond(key, body)
            writer.write(response_frame(key, version, correlation_id, response))
            if isinstance(response, SaslAuthenticateResponse) and response.error_code:
                return

    return serve


async def add(harness: PeerHarness, broker: ScriptedBroker, host: str = "127.0.0.1") -> None:
    """Have a broker in the cluster of the harness."""
    await harness.broker(serve_echo)
    await broker.start()
    harness._brokers.append(broker)
    harness.addresses[1] = harness.addresses[1]._replace(host=host, port=broker.port)
