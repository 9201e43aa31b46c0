"""What a single broker and one of a cluster have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import kqueue
from kqueue.base.errors import InvalidReplicaAssignment, SettingError
from kqueue.embedded.node import Node


@pytest.fixture(scope="module", params=["Broker", "Cluster"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with ExitStack() as stack:
        if request.param == "Broker":
            yield stack.enter_context(kqueue.Broker())
        else:
            yield stack.enter_context(kqueue.Cluster(brokers=2))[0]


def test_the_address(node: Node) -> None:
    assert node.bootstrap == f"127.0.0.1:{node.port}"


def test_replicas_are_placed_as_asked(node: Node) -> None:
    own = node._server.broker.node_id
    node.create_topic("placed", replicas={0: [own], 1: [own]}, retention_ms=5000)
    assert node.topics["placed"].partitions == 2
    assert node.topics["placed"].own_config == {"retention.ms": 5000}
    with pytest.raises(InvalidReplicaAssignment):
        node.create_topic("misplaced", replicas={0: [7]})
    assert "misplaced" not in node.topics


def test_settings_change_while_it_runs(node: Node) -> None:
    node.alter_config(log_retention_ms=1234)
    node.create_topic("kept")
    assert node.topics["kept"].config["retention.ms"] == 1234
    node.alter_config(log_retention_ms=None)
    assert node.topics["kept"].config["retention.ms"] != 1234
    with pytest.raises(SettingError):
        node.alter_config(no_such_setting=1)


def test_a_node_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = kqueue.Broker().port
    with kqueue.Cluster(brokers=2) as cluster:
        cluster.stop(1)
        with pytest.raises(RuntimeError, match="broker 1 is not running"):
            _ = cluster[1].bootstrap
