"""The network holds what it must hold, and nothing else; what was held arrives afterwards."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from cluster_tests.network import CLIENT, Network

HELD_S = 0.2


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""

    def serve() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(link,), daemon=True).start()

    def answer(link: socket.socket) -> None:
        with link:
            while data := link.recv(4096):
                link.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


def request(name: str) -> bytes:
    body = struct.pack(">hhih", 18, 4, 1, len(name)) + name.encode()
    return struct.pack(">i", len(body)) + body


def link(port: int, name: str) -> socket.socket:
    """A connection whose first request bears this client id, half of it first."""
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(request(name)[:9])
    made.sendall(request(name)[9:])
    return made


def arrives(link: socket.socket, data: bytes, timeout_s: float = 30.0) -> bool:
    link.settimeout(timeout_s)
    got = b""
    try:
        while len(got) < len(data):
            got += link.recv(len(data) - len(got))
    except TimeoutError:
        assert got == b""
        return False
    return got == data


def test_two_brokers_are_parted_and_others_are_not(network: Network, echo: int) -> None:
    port = network.listen("broker-2", echo)
    names = ("broker-1", "broker-3", "rdkafka")
    links = {name: link(port, name) for name in names}
    assert all(arrives(one, request(name)) for name, one in links.items())
    network.part(lambda source, target: (source, target) == ("broker-1", "broker-2"))
    for one in links.values():
        one.sendall(b"more")
    assert not arrives(links["broker-1"], b"more", HELD_S)
    assert arrives(links["broker-3"], b"more")
    assert arrives(links["rdkafka"], b"more")
    new = link(port, "broker-1")
    assert not arrives(new, request("broker-1"), HELD_S)
    network.heal()
    assert arrives(links["broker-1"], b"more")
    assert arrives(new, request("broker-1"))


def test_port_tells_the_broker_that_connects(network: Network, echo: int) -> None:
    port = network.listen("store", echo, "broker-1")
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"no request")
        assert arrives(one, b"no request")
        network.part(lambda source, target: source == "broker-1")
        one.sendall(b"more")
        assert not arrives(one, b"more", HELD_S)


def test_clients_have_one_name(network: Network, echo: int) -> None:
    port = network.listen("broker-2", echo)
    network.part(lambda source, target: source == CLIENT)
    assert not arrives(link(port, "rdkafka"), request("rdkafka"), HELD_S)
    assert arrives(link(port, "broker-7"), request("broker-7"))


def test_connections_are_cut_and_made_again(network: Network, echo: int) -> None:
    port, other = network.listen("broker-2", echo), network.listen("broker-3", echo)
    cut, kept = link(port, "a"), link(other, "a")
    assert arrives(cut, request("a"))
    assert arrives(kept, request("a"))
    network.cut("broker-2")
    cut.settimeout(30)
    assert cut.recv(1) == b""
    kept.sendall(b"more")
    assert arrives(kept, b"more")
    assert arrives(link(port, "a"), request("a"))
