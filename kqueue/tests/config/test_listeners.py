from __future__ import annotations

import socket

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import ListenerAddress, parse_listener_address, parse_listeners
from kqueue.tests.tables import for_each


def plan(**values: str):
    return parse_listeners(Config(CATALOG, {name.replace("_", "."): value for name, value in values.items()}))


@for_each(
    "text, address",
    [
        ("PLAINTEXT://127.0.0.1:9092", ListenerAddress("PLAINTEXT", "127.0.0.1", 9092)),
        ("inside://broker-1.example.com:0", ListenerAddress("INSIDE", "broker-1.example.com", 0)),
        ("PLAINTEXT://:9092", ListenerAddress("PLAINTEXT", "", 9092)),
        ("PLAINTEXT://[::1]:9092", ListenerAddress("PLAINTEXT", "::1", 9092)),
    ],
)
def test_addresses_are_read_and_written(text: str, address: ListenerAddress) -> None:
    assert parse_listener_address(text, "listeners") == address
    assert str(address).lower() == text.lower()


@for_each(
    "text",
    [
        "",
        "127.0.0.1:9092",
        "PLAINTEXT://127.0.0.1",
        "PLAINTEXT://127.0.0.1:65536",
        "PLAINTEXT://h:-1",
        "PLAINTEXT://::1:9092",
        "A B://h:1",
        "X://h:1/a",
    ],
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"listeners: expected NAME://host:port"):
        parse_listener_address(text, "listeners")


@for_each(
    "host, loopback",
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("broker", False),
    ],
)
def test_reachability_of_an_address(host: str, loopback: bool) -> None:
    assert ListenerAddress("PLAINTEXT", host, 1).is_loopback == loopback


def test_listener_advertises_its_address_and_bound_port() -> None:
    [listener] = plan(listeners="PLAINTEXT://127.0.0.1:0")
    assert listener.endpoint(40404) == ("127.0.0.1", 40404)


def test_advertised_address_takes_precedence() -> None:
    inside, outside = plan(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://0.0.0.0:9094",
        advertised_listeners="OUTSIDE://broker.example.com:19094,INSIDE://10.0.0.1:0",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert inside.endpoint(40404) == ("10.0.0.1", 40404)
    assert outside.endpoint(9094) == ("broker.example.com", 19094)


def test_empty_host_advertises_the_host_name() -> None:
    [listener] = plan(listeners="PLAINTEXT://:9092")
    assert listener.endpoint(9092) == (socket.getfqdn(), 9092)


@for_each(
    "values, words",
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:1,plaintext://127.0.0.1:2"}, "names PLAINTEXT twice"),
        ({"listeners": "INSIDE://h:1"}, "INSIDE has no entry in listener.security.protocol.map"),
        ({"listeners": "A://h:1", "listener_security_protocol_map": "A:TELNET"}, "found 'A:TELNET'"),
        ({"listeners": "A://h:1", "listener_security_protocol_map": "A"}, "found 'A'"),
        (
            {"listeners": "A://h:1,B://h:1", "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"},
            "A and B ask for the same address",
        ),
        ({"advertised_listeners": "OTHER://h:1"}, "names OTHER, which is none of the listeners"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no client can connect to 0.0.0.0"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners must say"),
    ],
)
def test_contradictory_listeners_are_refused(values: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        plan(**values)


def test_the_listener_between_brokers_of_a_cluster_is_one_of_the_listeners() -> None:
    names = {
        "listeners": "A://127.0.0.1:1,B://127.0.0.1:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    plan(**names, **{"inter.broker.listener.name": "C"})
    names["kqueue.cluster.store"] = "sqlite:/x"
    plan(**names, **{"inter.broker.listener.name": "b"})
    with pytest.raises(SettingError, match=r"inter\.broker\.listener\.name=C is none of the listeners \(A, B\)"):
        plan(**names, **{"inter.broker.listener.name": "C"})


def test_the_default_listener_is_localhost_and_advertises_an_address() -> None:
    [listener] = plan()
    assert str(listener.bind) == "PLAINTEXT://localhost:9092"
    assert listener.bind.is_loopback
    assert listener.endpoint(9092) == ("127.0.0.1", 9092)
    [named] = plan(listeners="PLAINTEXT://localhost:9092")
    assert named.endpoint(9092) == ("localhost", 9092)


KRAFT = {
    "process_roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093,Other-One://0.0.0.0:9094",
    "controller_listener_names": "CONTROLLER,other-one",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT",
}


def test_listeners_of_controllers_are_not_opened_nor_advertised() -> None:
    [listener] = plan(**KRAFT)
    assert listener.bind.name == "PLAINTEXT"
    [listener] = plan(**KRAFT, advertised_listeners="PLAINTEXT://a.example.com:1,CONTROLLER://a.example.com:2")
    assert listener.advertised == ListenerAddress("PLAINTEXT", "a.example.com", 1)
    [listener] = plan(
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROL://127.0.0.1:9093", control_plane_listener_name="CONTROL"
    )
    assert listener.bind.name == "PLAINTEXT"


@for_each(
    "values, words",
    [
        ({"controller_listener_names": "PLAINTEXT,CONTROLLER,other-one"}, "listeners of controllers only"),
        ({"controller_listener_names": ""}, "the role controller, and controller.listener.names is not set"),
        ({"controller_listener_names": "CONTROLER,x"}, r"=CONTROLER,x names none of the listeners \(CONTROLLER, "),
        ({"process_roles": "controller"}, "process.roles=controller serves no clients"),
        ({"process_roles": "voter"}, "process.roles"),
    ],
)
def test_controllers_without_a_listener_for_clients_are_refused(values: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        plan(**(KRAFT | values))
