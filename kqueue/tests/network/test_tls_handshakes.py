from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from kqueue.network.tls_handshakes import STEPS_MAX
from kqueue.network.tls_socket import TlsSocket
from kqueue.security.certificates import Authority
from kqueue.tests.network.harness import API, KiB, framed, request_bytes, serving, until
from kqueue.tests.network.tls_harness import (
    authority,
    client_context,
    connect_tls,
    handshakes,
    run,
    serving_tls,
)


def test_session_receives_the_clients_principal(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving_tls(
            ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=([^,]*),OU=eng.*$/$1/L"
        ) as server:
            ann = authority().issue("CN=Ann,OU=eng,O=x")
            client = await connect_tls(server, client_context(ann, tmp_path))
            await client.ask("ApiVersions", 0)
            [session] = server.connections.sessions
            assert str(session.principal) == "User:ann"
            await client.close()

    run(test)


def test_certificate_without_a_user_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls(ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:CN=x/x/") as server:
            ann = authority().issue("CN=Ann")
            client = await connect_tls(server, client_context(ann, tmp_path))
            assert await client.closed() == b""
            await client.close()
            anonymous = await connect_tls(server)
            await anonymous.ask("ApiVersions", 0)
            [session] = server.connections.sessions
            assert str(session.principal) == "User:ANONYMOUS"
            await anonymous.close()

    run(test)
    assert "no rule of ssl.principal.mapping.rules matches 'CN=Ann'" in caplog.text


@pytest.mark.parametrize("auth", ["required", "requested"])
def test_certificate_of_an_unknown_authority_is_refused(
    auth: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving_tls(ssl_client_auth=auth) as server:
            other = Authority.create("CN=other").issue("CN=ann")
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                client = await connect_tls(server, client_context(other, tmp_path))
                assert await client.closed() == b""
                await client.close()
            await until(lambda: handshakes(server) == 0)
            assert not server.connections.sessions

    run(test)
    assert "its TLS handshake failed: certificate verify failed" in caplog.text


def test_client_without_a_certificate_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls(ssl_client_auth="required") as server:
            with contextlib.suppress(OSError):
                client = await connect_tls(server)
                assert await client.closed() == b""
                await client.close()
            await until(lambda: handshakes(server) == 0)

    run(test)
    assert "its TLS handshake failed: peer did not return a certificate" in caplog.text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (framed(b"\0\x12\0\0\0\0\0\1\xff\xff"), "it does not speak TLS, which listener SSL needs"),
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP, and listener SSL needs TLS"),
        (b"\x16\x03\x01\xff\xff" + b"\1" * 100, "its TLS handshake failed: "),
        (b"\x16" + b"\0" * 100, "its TLS handshake failed: "),
    ],
)
def test_other_protocols_are_refused_with_one_line(data: bytes, words: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls() as server:
            reader, writer = await asyncio.open_connection(*server.bound("SSL"))
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
            await until(lambda: handshakes(server) == 0)

    run(test)
    assert len([record for record in caplog.records if words in record.getMessage()]) == 1


def test_tls_to_a_plaintext_listener_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving() as server:
            host, port = server.bound("PLAINTEXT")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(host, port, ssl=client_context(), server_hostname="localhost")

    run(test)
    assert "it speaks TLS, this listener does not" in caplog.text


def test_half_open_connections_by_the_thousand_keep_no_one_waiting() -> None:
    async def test() -> None:
        limits = {"kqueue_tls_max_handshakes": 200, "kqueue_tls_handshake_timeout_ms": 3_600_000}
        async with serving_tls(**limits, max_connections=10_000) as server:
            address = server.bound("SSL")
            half_open = []
            for number in range(1500):
                sock = socket.socket()
                sock.setblocking(False)
                sock.connect_ex(address)
                half_open.append(sock)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            client = await asyncio.wait_for(connect_tls(server), 60)
            await client.ask("ApiVersions", 0)
            assert handshakes(server) <= 200
            await client.close()
            for sock in half_open:
                sock.close()

    run(test)


def test_connections_that_began_a_handshake_time_out(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls(kqueue_tls_handshake_timeout_ms=100) as server:
            silent = await asyncio.open_connection(*server.bound("SSL"))
            begun = await asyncio.open_connection(*server.bound("SSL"))
            begun[1].write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            for reader, writer in (silent, begun):
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 60) == b""
                writer.close()
            await until(lambda: handshakes(server) == 0)

    run(test)
    assert caplog.text.count("its TLS handshake took 100 ms") == 2


def test_handshake_in_single_bytes_succeeds() -> None:
    async def test() -> None:
        async with serving_tls() as server:
            reader, writer = await asyncio.open_connection(*server.bound("SSL"))
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")

            async def send() -> None:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0)

            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await send()
                    incoming.write(await reader.read(1000))
            tls.write(request_bytes(API["ApiVersions"], 0, API["ApiVersions"].request_class()))
            await send()
            answer = b""
            while len(answer) < 4:
                incoming.write(await reader.read(1000))
                with contextlib.suppress(ssl.SSLWantReadError):
                    answer += tls.read(4)
            assert 0 < int.from_bytes(answer, "big") < 4 * KiB
            writer.close()

    run(test)


def test_stop_during_handshakes_closes_them() -> None:
    async def test() -> None:
        async with serving_tls() as server:
            reader, writer = await asyncio.open_connection(*server.bound("SSL"))
            writer.write(b"\x16\x03\x01")
            await until(lambda: handshakes(server) == 1)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    run(test)


def test_no_step_runs_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    step = TlsSocket.step

    def noted(tls: TlsSocket) -> bool | None:
        threads.append(threading.get_ident())
        return step(tls)

    async def test() -> None:
        monkeypatch.setattr(TlsSocket, "step", noted)
        async with serving_tls() as server:
            clients = await asyncio.gather(*[connect_tls(server) for _ in range(20)])
            for client in clients:
                await client.ask("ApiVersions", 0)  # its handshake is done here too, not only there
                await client.close()

    run(test)
    assert len(threads) >= 20
    assert threading.get_ident() not in threads
    assert len(set(threads)) <= STEPS_MAX


def test_connections_are_counted_while_their_handshake_is_under_way() -> None:
    async def test() -> None:
        async with serving_tls(max_connections=2, kqueue_tls_handshake_timeout_ms=3000) as server:
            silent = [await asyncio.open_connection(*server.bound("SSL")) for _ in range(2)]
            await until(lambda: handshakes(server) == 2)
            with pytest.raises((OSError, ssl.SSLError)):
                await connect_tls(server)
            await until(lambda: handshakes(server) == 0)
            client = await connect_tls(server)
            await client.ask("ApiVersions", 0)
            await client.close()
            for _, writer in silent:
                writer.close()

    run(test)
