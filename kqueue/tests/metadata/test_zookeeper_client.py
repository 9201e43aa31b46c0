"""The connection to ZooKeeper: answers, refusals, and answers that are lost."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from kazoo.exceptions import NoAuthError

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.metadata.zookeeper_client import (
    Disconnected,
    Operation,
    Rejected,
    ZookeeperClient,
    barrier,
    children,
    exists,
    get,
)
from kqueue.tests.metadata.zookeeper_model import ModelServer, server

__all__ = ["server"]


def _connected() -> ZookeeperClient:
    client = ZookeeperClient("model:2181", 4000)
    client.start(_soon())
    return client


def _soon(seconds: float = 60) -> float:
    """Return a deadline as the client takes it."""
    return monotonic_s() + seconds


def test_answers_come_in_the_order_of_the_requests(server: ModelServer) -> None:
    with closing(_connected()) as client:
        client.ensure(_soon(), ["/a/b"])
        client.transact(_soon(), [Operation("create", "/a/c", b"c"), Operation("set", "/a/c", b"cc", 0)])
        passed, node, missing, state, no_state, names, no_names = client.gather(
            _soon(),
            [barrier("/a"), get("/a/c"), get("/x"), exists("/a/c"), exists("/x"), children("/a"), children("/x")],
        )
        assert (passed, node.data, node.stat.version, state.version) == ([True], b"cc", 1, 1)
        assert (missing, no_state, no_names) == (None, None, None)
        assert sorted(names) == ["b", "c"]


def test_a_transaction_names_the_operation_that_can_not_be_done(server: ModelServer) -> None:
    with closing(_connected()) as client:
        client.ensure(_soon(), ["/a"])
        for bad in (
            Operation("check", "/x"),
            Operation("set", "/a", b"", 7),
            Operation("create", "/a"),
            Operation("create", "/x/y"),
            Operation("delete", "/x"),
        ):
            with pytest.raises(Rejected) as caught:
                client.transact(_soon(), [Operation("create", "/new"), bad, Operation("delete", "/a")])
            assert caught.value.index == 1
        assert client.gather(_soon(), [exists("/new")]) == [None]


def test_ephemeral_nodes_go_with_the_connection(server: ModelServer) -> None:
    with closing(_connected()) as other:
        with closing(_connected()) as client:
            client.transact(_soon(), [Operation("create ephemeral", "/mine"), Operation("create", "/stays")])
        assert other.gather(_soon(), [exists("/mine")]) == [None]
        assert other.gather(_soon(), [exists("/stays")]) != [None]


def test_lost_answers_and_refusals_are_told_apart(server: ModelServer) -> None:
    with closing(_connected()) as client:
        server.fault = lambda number, request: "before"
        with pytest.raises(Disconnected, match="ZooKeeper at model:2181 does not answer .ConnectionLoss"):
            client.gather(_soon(), [get("/")])

        def refuse(number: int, request: object) -> None:
            raise NoAuthError

        server.fault = refuse
        with pytest.raises(StorageFailed, match="check kqueue.zookeeper.user") as caught:
            client.gather(_soon(), [get("/")])
        assert not isinstance(caught.value, Disconnected)
        server.fault = lambda number, request: None
        server.stop()
        with pytest.raises(Disconnected, match="not connected"):
            client.transact(_soon(0.1), [Operation("delete", "/x")])
    with pytest.raises(Disconnected):
        client.gather(_soon(0.1), [get("/")])


def test_each_change_of_the_connection_is_one_line_of_the_log(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    lost = []
    with caplog.at_level(logging.INFO, "kqueue"), closing(_connected()) as client:
        client.on_lost = lambda: lost.append(1)
        server.stop()
        assert not lost
        server.start()
        server.expire(client._kazoo)
        assert lost == [1]
    assert [record.getMessage() for record in caplog.records] == [
        "ZooKeeper model:2181: connection lost",
        "ZooKeeper model:2181: connected again",
        "ZooKeeper model:2181: session has expired",
        "ZooKeeper model:2181: connected again",
    ]
