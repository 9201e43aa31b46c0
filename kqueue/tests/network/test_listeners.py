"""Tests of `kqueue.network.listeners`: the listeners of a server together."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from kqueue.base.clock import SystemClock
from kqueue.base.config import Config
from kqueue.base.errors import ListenFailed
from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import parse_listeners
from kqueue.network.listeners import Listeners
from kqueue.tests.network.harness import Client, serving


def listeners_of(addresses: str, sockets: dict[str, socket.socket] | None = None) -> Listeners:
    config = Config(CATALOG, {"listeners": addresses, "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"})
    return Listeners(parse_listeners(config), config, SystemClock(), sockets or {})


def test_a_port_in_use_leaves_no_socket_of_the_others_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        with pytest.raises(ListenFailed, match=f"B://127.0.0.1:{ports[1]}"), ExitStack() as cleanup:
            listeners_of(f"A://127.0.0.1:{ports[0]},B://127.0.0.1:{ports[1]}").bind(cleanup)
        socket.create_server(("127.0.0.1", ports[0])).close()


def test_given_sockets_are_used_and_closed_by_the_cleanup() -> None:
    given = socket.create_server(("127.0.0.1", 0))
    with ExitStack() as cleanup:
        listeners_of("A://127.0.0.1:0", {"A": given}).bind(cleanup)
        assert given.fileno() != -1
    assert given.fileno() == -1


def test_names_ports_and_addresses_are_in_the_order_of_the_settings() -> None:
    async def test() -> None:
        protocols = "B:PLAINTEXT,A:PLAINTEXT"
        async with serving(
            listeners="B://127.0.0.1:0,A://127.0.0.1:0", listener_security_protocol_map=protocols
        ) as server:
            listeners = server._listeners
            assert listeners.names == ["B", "A"]
            ports = [listeners[name].port for name in "BA"]
            assert str(listeners) == f"B://127.0.0.1:{ports[0]}, A://127.0.0.1:{ports[1]}"

    asyncio.run(test())


def test_one_more_socket_is_served_and_closed_with_the_others() -> None:
    async def test() -> None:
        async with serving() as server:
            more = socket.create_server(("127.0.0.1", 0))
            more.setblocking(False)
            server.accept_from("PLAINTEXT", more)
            client = Client(*await asyncio.open_connection(*more.getsockname()))
            await client.ask("ApiVersions", 0)
            await client.close()
        assert more.fileno() == -1

    asyncio.run(test())
