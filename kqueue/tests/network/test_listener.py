from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

import pytest

from kqueue.base.errors import ListenFailed, SettingError
from kqueue.network.connection_quotas import parse_overrides
from kqueue.security.quotas import entity_of
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import FREE_PORT, connect, serving, until
from kqueue.tests.tables import for_each


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if words in record.getMessage()]


def test_connection_over_the_limit_is_closed_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(max_connections=2) as server:
            first, second = await connect(server), await connect(server)
            await first.ask("ApiVersions", 0)
            third = await connect(server)
            assert await third.closed() == b""
            await second.ask("ApiVersions", 0)
            await first.close()
            await until(lambda: len(server.connections.sessions) == 1)
            fourth = await connect(server)
            await fourth.ask("ApiVersions", 0)

    asyncio.run(test())
    assert len(lines(caplog, "the broker has 2 connections already (max.connections)")) == 1


def test_connections_are_limited_by_address_with_overrides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with serving(max_connections_per_ip=1) as server:
            first, second = await connect(server), await connect(server)
            await first.ask("ApiVersions", 0)
            assert await second.closed() == b""
        async with serving(max_connections_per_ip=1, max_connections_per_ip_overrides="127.0.0.1:2") as server:
            clients = [await connect(server) for _ in range(3)]
            assert await clients[2].closed() == b""

    asyncio.run(test())
    assert len(lines(caplog, "its address has 1 connection already")) == 1
    assert len(lines(caplog, "its address has 2 connections already")) == 1


def test_connections_above_the_rate_are_accepted_later() -> None:
    async def test() -> None:
        clock = ManualClock()
        async with serving(clock=clock, max_connection_creation_rate=20) as server:
            clients = [await connect(server) for _ in range(25)]
            for client in clients[:20]:
                await client.ask("ApiVersions", 0)
            assert len(server.connections.sessions) == 20
            clock.advance(1000)
            server.loop_driver.run_now()
            for client in clients[20:]:
                await client.ask("ApiVersions", 0)

    asyncio.run(test())


def test_port_in_use_is_reported_in_one_sentence() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            address = f"PLAINTEXT://127.0.0.1:{bound.getsockname()[1]}"
            with pytest.raises(ListenFailed, match=f"listener {address} can't be opened: Address already in use"):
                async with serving(listeners=address):
                    pass

    asyncio.run(test())


def test_foreign_address_is_refused() -> None:
    async def test() -> None:
        with pytest.raises(ListenFailed, match="can't be opened"):
            async with serving(listeners="PLAINTEXT://192.0.2.1:0", kqueue_allow_insecure=True):
                pass

    asyncio.run(test())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
@for_each(
    "listen, via, host",
    [("[::1]", "::1", "::1"), ("", "127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1", "127.0.0.1")],
)
def test_listener_accepts_every_kind_of_host(listen: str, via: str, host: str) -> None:
    async def test() -> None:
        async with serving(listeners=f"PLAINTEXT://{listen}:0", kqueue_allow_insecure=True) as server:
            _, writer = await asyncio.open_connection(via, server.bound("PLAINTEXT")[1])
            await until(lambda: bool(server.connections.sessions))
            [session] = server.connections.sessions
            assert session.host == host
            writer.close()
            await writer.wait_closed()

    asyncio.run(test())


def test_accept_is_retried_when_descriptors_are_exhausted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving() as server:
            listener = server._listeners["PLAINTEXT"]
            sound = listener._socket
            assert sound is not None

            class Exhausted:
                def __getattr__(self, name: str) -> object:
                    return getattr(sound, name)

                def accept(self) -> object:
                    raise OSError(errno.EMFILE, "Too many open files")

            monkeypatch.setattr("kqueue.network.listener.RETRY_S", 0.01)
            listener._socket = Exhausted()  # type: ignore[assignment]
            client = await connect(server)
            await until(lambda: bool(lines(caplog, "cannot accept more connections for now: Too many open files")))
            listener._socket = sound
            await client.ask("ApiVersions", 0)

    asyncio.run(test())


def test_unwatchable_connection_is_closed_and_not_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def test() -> None:
        async with serving(max_connections=1) as server:
            with monkeypatch.context() as patch:
                patch.setattr(server.connections.loop, "add_reader", refuse)
                client = await connect(server)
                assert await client.closed() == b""
            assert not server.connections.sessions
            await (await connect(server)).ask("ApiVersions", 0)

    asyncio.run(test())
    assert len(lines(caplog, ": No space left on device")) == 1


def test_socket_buffer_sizes_are_applied() -> None:
    async def test() -> None:
        async with serving(socket_send_buffer_bytes=20_000, socket_receive_buffer_bytes=10_000) as server:
            client = await connect(server)
            await client.ask("ApiVersions", 0)
            [session] = server.connections.sessions
            sock = session._socket  # type: ignore[attr-defined]
            assert 20_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 60_000
            assert 10_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 30_000
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    asyncio.run(test())


def test_overrides_map_addresses_to_limits() -> None:
    assert parse_overrides(["10.0.0.1:5", "[::1]:7"]) == {"10.0.0.1": 5, "::1": 7}
    for entry in ("10.0.0.1", "10.0.0.1:many", "no.such.host.invalid:5"):
        with pytest.raises(SettingError, match="expected address:number"):
            parse_overrides([entry])


def test_clients_of_other_machines_must_authenticate_unless_the_setting_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exposed = {"listeners": "PLAINTEXT://0.0.0.0:0", "advertised_listeners": "PLAINTEXT://127.0.0.1:0"}

    async def test(**more: object) -> None:
        async with serving(**exposed, **more):
            pass

    with pytest.raises(SettingError, match=r"kqueue\.allow\.insecure=true"):
        asyncio.run(test())
    with caplog.at_level(logging.WARNING, "kqueue"):
        asyncio.run(test(kqueue_allow_insecure=True))
    assert len(lines(caplog, "need not authenticate")) == 1


def test_a_listener_has_a_rate_of_its_own() -> None:
    async def test() -> None:
        settings: Any = {
            "listeners": f"{FREE_PORT},SLOW://127.0.0.1:0",
            "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SLOW:PLAINTEXT",
            "listener_name_slow_max_connection_creation_rate": 10,
        }
        clock = ManualClock()
        async with serving(clock=clock, **settings) as server:
            for client in [await connect(server) for _ in range(20)]:
                await client.ask("ApiVersions", 0)
            slow = [await connect(server, "SLOW") for _ in range(15)]
            for client in slow[:10]:
                await client.ask("ApiVersions", 0)
            assert len(server.connections.sessions) == 30
            clock.advance(1000)
            server.loop_driver.run_now()
            for client in slow[10:]:
                await client.ask("ApiVersions", 0)

    asyncio.run(test())


def test_a_connection_above_the_quota_of_its_address_is_held_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        clock = ManualClock()
        async with serving(clock=clock, quota_window_num=2) as server:
            quotas = server.broker.security.quotas
            quotas.alter({entity_of([("ip", "127.0.0.1")]): {"connection_creation_rate": 2}})
            await until(lambda: quotas.bounds_addresses)
            served, held = [await connect(server) for _ in range(2)], await connect(server)
            for client in served:
                await client.ask("ApiVersions", 0)
            closed = asyncio.ensure_future(held.closed())
            clock.advance(300)
            server.loop_driver.run_now()
            await asyncio.sleep(0)
            assert not closed.done()
            clock.advance(2000)
            server.loop_driver.run_now()
            assert await closed == b""
            clock.advance(2100)
            server.loop_driver.run_now()
            await (await connect(server)).ask("ApiVersions", 0)

    asyncio.run(test())
    assert len(lines(caplog, "its address makes more of them than its quota")) == 1
