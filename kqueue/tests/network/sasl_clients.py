"""Listeners with SASL for tests, and the steps of a client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from kqueue.app import Server
from kqueue.base.clock import Clock
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.security.sasl.contract import ClientMechanism
from kqueue.security.sasl.plain import PlainClient
from kqueue.security.sasl.scram import ScramClient
from kqueue.security.scram_credentials import SCRAM_MECHANISMS
from kqueue.tests.network.harness import Client, serving

USERS = 'user_ann="secret" user_bob="geheim";'
SETTINGS: dict[str, object] = {
    "listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener_security_protocol_map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener_name_sasl_plain_sasl_jaas_config": f"{PLAIN_MODULE} required {USERS}",
    "listener_name_sasl_scram-sha-256_sasl_jaas_config": f"{SCRAM_MODULE} required {USERS}",
    "listener_name_sasl_scram-sha-512_sasl_jaas_config": f"{SCRAM_MODULE} required {USERS}",
    "connection_failed_authentication_delay_ms": 1,
}
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        asyncio.run(test(*args, **keywords))

    return run


@contextlib.asynccontextmanager
async def sasl_serving(
    folder: Path | None = None, *, clock: Clock | None = None, **settings: object
) -> AsyncIterator[Server]:
    """Serve a listener SASL with users ann and bob, and a listener PLAINTEXT."""
    async with serving(folder, clock=clock, **{**SETTINGS, **settings}) as server:
        yield server


def mechanism(name: str, user: str = "ann", password: str = "secret") -> ClientMechanism:
    if name == "PLAIN":
        return PlainClient(user, password)
    return ScramClient(SCRAM_MECHANISMS[name], user, password)


async def authenticate(
    client: Client, name: str = "PLAIN", user: str = "ann", password: str = "secret", version: int = 2
) -> Any:
    """Authenticate with SaslAuthenticate requests; returns the last response."""
    handshake = await client.ask("SaslHandshake", 1, mechanism=name)
    assert handshake.error_code == 0
    one = mechanism(name, user, password)
    token: bytes | None = one.first()
    while token is not None:
        response = await client.ask("SaslAuthenticate", version, auth_bytes=token)
        if response.error_code:
            return response
        token = one.respond(response.auth_bytes)
    return response


async def authenticate_raw(client: Client, name: str = "PLAIN", user: str = "ann", password: str = "secret") -> None:
    """Authenticate with tokens that are no requests."""
    handshake = await client.ask("SaslHandshake", 0, mechanism=name)
    assert handshake.error_code == 0
    one = mechanism(name, user, password)
    token: bytes | None = one.first()
    while token is not None:
        client.send_raw(len(token).to_bytes(4, "big") + token)
        token = one.respond(await client.frame())


async def is_served(client: Client) -> bool:
    """Return whether the broker serves requests of this connection."""
    try:
        response = await client.ask("Metadata", 12)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return len(response.brokers) == 1
