"""The common behaviour of a single broker and one of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kqueue
from kqueue.base.errors import InvalidReplicaAssignment, SettingError
from kqueue.embedded.node import EmbeddedNode


@pytest.fixture(scope="module", params=["Broker", "Cluster"])
def node(request: pytest.FixtureRequest) -> Iterator[EmbeddedNode]:
    with ExitStack() as stack:
        if request.param == "Broker":
            yield stack.enter_context(kqueue.Broker())
        else:
            yield stack.enter_context(kqueue.Cluster(brokers=2))[0]


def test_the_address(node: EmbeddedNode) -> None:
    assert node.bootstrap == f"127.0.0.1:{node.port}"


def test_replicas_are_placed_as_asked(node: EmbeddedNode) -> None:
    own = node._server.broker.identity.node_id
    node.create_topic("placed", replicas={0: [own], 1: [own]}, retention_ms=5000)
    assert node.topics["placed"].partitions == 2
    assert node.topics["placed"].own_config == {"retention.ms": 5000}
    with pytest.raises(InvalidReplicaAssignment):
        node.create_topic("misplaced", replicas={0: [7]})
    assert "misplaced" not in node.topics


def test_a_topic_gets_the_defaults_of_the_broker() -> None:
    with kqueue.Broker(num_partitions=3) as broker:
        broker.create_topic("orders")
        broker.create_topic("mails", 2)
        assert [broker.topics[name].partitions for name in ("orders", "mails")] == [3, 2]
    with kqueue.Cluster(brokers=3, num_partitions=4, default_replication_factor=2) as cluster:
        cluster.create_topic("orders")
        cluster[1].create_topic("mails", replication_factor=3)
        cluster.wait_in_sync()
        assert [len(cluster.replicas(name, 3)) for name in ("orders", "mails")] == [2, 3]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"config": {"cleanup.policy": "compact"}}, "settings are keywords, write cleanup_policy='compact'"),
        ({"configs": None}, 'settings are keywords, write cleanup_policy="compact"'),
        ({"num_partitions": 3}, "no argument 'num_partitions'; did you mean 'partitions'"),
        ({"replication": 3}, "did you mean 'replication_factor'"),
        ({"partitions": "3"}, "partitions='3': expected a number"),
        ({"partitions": True}, "partitions=True: expected a number"),
        ({"replicas": [[0]]}, r"replicas=.*: expected partition -> node ids"),
        ({"replicas": {0: 1}}, "replicas=1: expected partition -> node ids"),
        ({"replicas": {0: [0]}, "partitions": 3}, "partitions=3: replicas= has 1"),
    ],
)
def test_a_mistaken_topic_is_refused_with_what_is_expected(
    node: EmbeddedNode, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        node.create_topic("mistaken", **keywords)
    with pytest.raises(TypeError, match="name=.*: expected the name of one topic"):
        node.create_topic(["orders", "mails"])  # type: ignore[arg-type]
    assert "mistaken" not in node.topics


def test_settings_in_a_dict_are_refused_with_the_keywords(node: EmbeddedNode) -> None:
    with pytest.raises(TypeError, match=r"alter_config\(\) has no argument 'config': .* write log_retention_ms=5"):
        node.alter_config(config={"log.retention.ms": 5})


def test_settings_change_while_it_runs(node: EmbeddedNode) -> None:
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
