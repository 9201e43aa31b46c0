"""Servers with TLS and their certificates, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any

from kqueue.app import Server
from kqueue.security.certificates import Authority, Certificate
from kqueue.tests.network.harness import Client, KiB, serving

NAMES = ("localhost", "127.0.0.1")


@cache
def authority() -> Authority:
    return Authority.create()


@cache
def broker_pair() -> Certificate:
    return authority().issue("CN=broker", hosts=NAMES)


def client_context(pair: Certificate | None = None, folder: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority().certificate)
    if pair is not None:
        assert folder is not None
        (folder / "client.pem").write_text(pair.pem)
        context.load_cert_chain(folder / "client.pem")
    return context


@contextlib.asynccontextmanager
async def serving_tls(**settings: object) -> AsyncIterator[Server]:
    """Serve with TLS, with the pair of this module unless the settings name another one."""
    keys: dict[str, object] = {"ssl_keystore_type": "PEM", "ssl_truststore_type": "PEM"}
    if "ssl_keystore_location" not in settings:
        keys |= {"ssl_keystore_certificate_chain": broker_pair().certificate, "ssl_keystore_key": broker_pair().key}
    keys["ssl_truststore_certificates"] = authority().certificate
    values = {"listeners": "SSL://127.0.0.1:0"} | keys | settings
    async with serving(**values) as server:
        yield server


async def connect_tls(server: Server, context: ssl.SSLContext | None = None) -> Client:
    host, port = server.bound("SSL")
    return Client(
        *await asyncio.open_connection(
            host, port, ssl=context or client_context(), server_hostname="localhost", limit=64 * KiB
        )
    )


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def handshakes(server: Server) -> int:
    counters = server._listeners["SSL"]._handshakes
    assert counters is not None
    return len(counters)
