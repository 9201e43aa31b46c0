"""Tests of `kqueue.network.listeners`: the listeners of a server together."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from kqueue.base.clock import SystemClock
from kqueue.base.config import Config
from kqueue.base.errors import ListenFailed
from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import ListenerAddress, parse_listeners
from kqueue.network import listener as listener_module
from kqueue.network.listener import bind
from kqueue.network.listeners import Listeners
from kqueue.tests.network.harness import Client, serving
from kqueue.tests.tables import for_each


def listeners_of(addresses: str, sockets: dict[str, socket.socket] | None = None) -> Listeners:
    config = Config(CATALOG, {"listeners": addresses, "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"})
    given = {name: [bound] for name, bound in (sockets or {}).items()}
    return Listeners(parse_listeners(config), config, SystemClock(), given)


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


def test_added_socket_is_served_and_closed_with_the_others() -> None:
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


HAS_IPV6 = socket.has_dualstack_ipv6()


@pytest.mark.skipif(not HAS_IPV6, reason="the machine has no IPv6")
@for_each("host", ["localhost", "LocalHost"])
def test_localhost_is_served_on_both_loopback_addresses_with_one_port(host: str) -> None:
    async def test() -> None:
        async with serving(listeners=f"PLAINTEXT://{host}:0") as server:
            port = server.bound("PLAINTEXT")[1]
            for address in ("127.0.0.1", "::1"):
                client = Client(*await asyncio.open_connection(address, port))
                await client.ask("ApiVersions", 0)
                await client.close()
            shared = server.share_sockets()["PLAINTEXT"]
            assert sorted(each.getsockname()[:2] for each in shared) == [("127.0.0.1", port), ("::1", port)]
            for each in shared:
                each.close()

    asyncio.run(test())


def bound_without(monkeypatch: pytest.MonkeyPatch, missing: dict[int, int], port: int = 0) -> list[socket.socket]:
    """Bind localhost on a machine where families fail with these error numbers."""

    class Sockets(socket.socket):
        def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
            if missing.get(family) == errno.EAFNOSUPPORT:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, type, proto, fileno)

        def bind(self, address: Any) -> None:
            if self.family in missing:
                raise OSError(missing[self.family], "cannot bind")
            super().bind(address)

    monkeypatch.setattr("kqueue.network.listener.socket.socket", Sockets)
    config = Config(CATALOG)
    return bind(ListenerAddress("PLAINTEXT", "localhost", port), config)


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_localhost_without_ipv6_is_ipv4_alone(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    [bound] = bound_without(monkeypatch, {socket.AF_INET6: number})
    assert bound.family == socket.AF_INET
    bound.close()


@pytest.mark.skipif(not HAS_IPV6, reason="the machine has no IPv6")
def test_localhost_without_ipv4_is_ipv6_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    [bound] = bound_without(monkeypatch, {socket.AF_INET: errno.EADDRNOTAVAIL})
    assert bound.family == socket.AF_INET6
    bound.close()


def test_localhost_without_any_family_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ListenFailed, match="listener PLAINTEXT://localhost:0 can't be opened"):
        bound_without(monkeypatch, dict.fromkeys((socket.AF_INET, socket.AF_INET6), errno.EADDRNOTAVAIL))


@pytest.mark.skipif(not HAS_IPV6, reason="the machine has no IPv6")
def test_localhost_whose_port_is_in_use_on_ipv6_is_refused() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"localhost:{port} can't be opened: Address already in use"):
            bind(ListenerAddress("PLAINTEXT", "localhost", port), Config(CATALOG))
        socket.create_server(("127.0.0.1", port)).close()


def test_localhost_with_port_0_takes_another_port_if_ipv6_has_the_first_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    real = listener_module._bind

    def crowded(address: ListenerAddress, family: socket.AddressFamily, host: str, receive: int) -> socket.socket:
        if family == socket.AF_INET6:
            tried.append(address.port)
            if len(tried) < 3:
                raise OSError(errno.EADDRINUSE, "Address already in use")
        return real(address, socket.AF_INET, "127.0.0.1" if family == socket.AF_INET else "127.0.0.2", receive)

    monkeypatch.setattr(listener_module, "_bind", crowded)
    sockets = bind(ListenerAddress("PLAINTEXT", "localhost", 0), Config(CATALOG))
    assert {each.getsockname()[1] for each in sockets} == {tried[2]}
    for each in sockets:
        each.close()
