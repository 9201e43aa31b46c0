from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.key_stores import KeyPair, load_key_pair
from kqueue.network.tls_socket import SEND_BYTES_MAX, TlsSocket
from kqueue.tests.network.tls_harness import (
    broker_pair,
    client_context,
)
from kqueue.tests.tables import for_each


def pair() -> tuple[TlsSocket, ssl.SSLSocket]:
    """Return the server's socket, and the client's side, after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key_pair(context, KeyPair(broker_pair().certificate, broker_pair().key))
    one, other = socket.socketpair()
    one.setblocking(False)
    server = TlsSocket(one, context)
    client = client_context().wrap_socket(other, server_hostname="localhost", do_handshake_on_connect=False)
    client.setblocking(False)
    waiting = True
    while waiting:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        waiting = server.step() is not None
    return server, client


def test_nothing_to_read_blocks_like_a_plain_socket() -> None:
    server, client = pair()
    with pytest.raises(BlockingIOError):
        server.recv_into(memoryview(bytearray(10)))
    client.send(b"hello")
    buffer = memoryview(bytearray(3))
    assert server.recv_into(buffer) == 3
    assert bytes(buffer) == b"hel"
    assert server.pending() == 2
    server.close()
    client.close()


def test_several_records_fill_one_buffer() -> None:
    server, client = pair()
    for _ in range(10):
        client.send(b"x" * 1000)
    buffer = memoryview(bytearray(100_000))
    assert server.recv_into(buffer) == 10_000
    server.close()
    client.close()


def test_full_socket_blocks_and_continues_without_a_gap() -> None:
    server, client = pair()
    data = bytes(range(256)) * 20_000
    sent, received = 0, bytearray()
    while len(received) < len(data):
        if sent < len(data):
            with contextlib.suppress(BlockingIOError):
                count = server.send(memoryview(data)[sent:])
                assert 0 < count <= SEND_BYTES_MAX
                sent += count
        with contextlib.suppress(ssl.SSLWantReadError):
            received += client.recv(50_000)
    assert received == data
    server.close()
    client.close()


def test_close_says_so_and_a_closed_copy_does_not() -> None:
    server, client = pair()
    server.close()
    assert client.recv(1) == b""
    assert client.version() is not None
    client.close()
    server, client = pair()
    client.suppress_ragged_eofs = False  # type: ignore[attr-defined]
    server.close_descriptor()
    with pytest.raises((ssl.SSLEOFError, BrokenPipeError)):  # from Python 3.14 on its answer fails
        client.recv(1)
    client.close()


def test_end_without_tls_is_an_end() -> None:
    server, client = pair()
    with contextlib.suppress(ssl.SSLWantReadError):
        client.recv(1)  # session tickets: what is not read at the end resets the connection
    socket.socket(fileno=client.detach()).close()
    assert server.recv_into(memoryview(bytearray(10))) == 0
    server.close()


def test_failed_calls_do_not_fail_other_connections_of_the_thread() -> None:
    """Python 3.14 leaves errors in OpenSSL's queue."""
    other, silent = pair()

    def lose(call: Callable[[TlsSocket], object]) -> None:
        server, client = pair()
        client.close()
        with contextlib.suppress(OSError):
            call(server)
        with pytest.raises(BlockingIOError):
            other.recv_into(memoryview(bytearray(10)))
        server.close_descriptor()

    lose(lambda server: server.close())
    lose(lambda server: [server.send(memoryview(bytes(1000))) for _ in range(10)])
    lose(lambda server: server.recv_into(memoryview(bytearray(10))))
    other.close()
    silent.close()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@given(
    st.binary(max_size=500)
    | st.integers(0, len(HELLO)).map(lambda end: HELLO[:end])
    | st.tuples(st.integers(0, len(HELLO) - 1), st.integers(1, 255)).map(
        lambda change: HELLO[: change[0]] + bytes([HELLO[change[0]] ^ change[1]]) + HELLO[change[0] + 1 :]
    )
)
@settings(deadline=None)
def test_whatever_a_client_begins_with_is_a_step_or_an_error_of_its_connection(data: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key_pair(context, KeyPair(broker_pair().certificate, broker_pair().key))
    one, other = socket.socketpair()
    one.setblocking(False)
    server = TlsSocket(one, context)
    other.send(data)
    with contextlib.suppress(OSError):
        assert server.step() in (True, False)
    server.close()
    other.close()


@for_each(
    "data",
    [
        b"\x17\x03\x03\xff\xff" + b"x" * 100,  # longer than a record may be
        b"\x17\x03\x03\x00\x40" + b"x" * 64,  # no one encrypted this
        b"\x00\x00\x00\x10" + b"x" * 16,
    ],
)
def test_forged_record_ends_the_connection(data: bytes) -> None:
    server, client = pair()
    with socket.socket(fileno=os.dup(client.fileno())) as plain:
        plain.send(data)
    with pytest.raises(OSError, match=r"\[SSL|_ssl"):
        server.recv_into(memoryview(bytearray(1000)))
    server.close()
    client.close()
