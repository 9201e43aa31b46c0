from __future__ import annotations

import importlib.util
import os
import threading

import pytest

from kqueue import Broker, Cluster
from kqueue.base.errors import SettingError
from kqueue.client import Client, ClientOptions
from kqueue.client.errors import ClientError
from kqueue.tests.schema_registry.http_calls import INT, LONG, call


def test_a_broker_has_a_registry_that_lives_as_long_as_it() -> None:
    with Broker(schema_registry=True) as broker:
        url = broker.schema_registry
        assert call(f"{url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
        broker.restart()
        assert broker.schema_registry == url
        assert call(f"{url}/subjects") == (200, ["a"])
        broker.reset()
        assert call(f"{url}/subjects") == (200, [])
        assert call(f"{url}/subjects/b/versions", "POST", LONG) == (200, {"id": 1})
    with pytest.raises(OSError, match="refused"):
        call(f"{url}/subjects")
    with pytest.raises(RuntimeError, match="its broker is not"):
        _ = broker.schema_registry
    assert not [thread for thread in threading.enumerate() if "registry" in thread.name]


def test_the_registry_connects_as_the_first_user() -> None:
    acls = ["User:ann allow all topic:*", "User:ann allow all cluster"]
    with Broker(schema_registry=True, tls=True, users={"ann": "secret", "bob": "secret"}, acls=acls) as broker:
        assert call(f"{broker.schema_registry}/subjects/a/versions", "POST", INT) == (200, {"id": 1})


def test_a_registry_that_can_not_start_stops_its_broker() -> None:
    broker = Broker(schema_registry=True, users={"ann": "secret"}, acls=["User:bob allow all topic:*"])
    with pytest.raises(ClientError, match="AUTHORIZATION_FAILED"):
        broker.start()
    assert not broker.is_running


def test_a_broker_without_a_registry_says_how_to_get_one() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match=r"start one with Broker\(schema_registry=True\)"):
        _ = broker.schema_registry
    with pytest.raises(TypeError, match="schema_registry"):
        Broker(schema_registry="8081")


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"schema_registry=True needs packages .*\[registry\]"):
        Broker(schema_registry=True)


def test_the_registry_of_a_cluster_outlives_its_brokers() -> None:
    with Cluster(schema_registry=True) as cluster:
        url = cluster.schema_registry
        assert call(f"{url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
        with Client(ClientOptions(bootstrap=cluster.bootstrap)) as client:
            assert len(client.metadata(["_schemas"]).topics["_schemas"].partitions[0].replicas) == 3
        cluster.kill(0)
        assert call(f"{url}/subjects/b/versions", "POST", LONG) == (200, {"id": 2})
        cluster.reset()
        assert call(f"{url}/subjects") == (200, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_hold_the_port_of_the_registry() -> None:
    broker = Broker(schema_registry=True).start()
    url = broker.schema_registry
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # it lives until the end of the test
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        broker.stop()
        with pytest.raises(OSError, match="refused"):
            call(f"{url}/subjects")
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_a_registry_that_was_idle_for_days_registers_at_once() -> None:
    with Broker(schema_registry=True) as broker:
        url = broker.schema_registry
        assert call(f"{url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
        broker.clock.advance(days=8)  # brokers forget producers after a day
        assert call(f"{url}/subjects/b/versions", "POST", LONG) == (200, {"id": 2})
