from __future__ import annotations

import click
import pytest

from kqueue import Broker
from kqueue.cli.plugins.usage import ask


def test_topics_and_brokers_by_what_they_use() -> None:
    with Broker(node_id=7) as broker:
        broker.create_topic("a", compression_type="zstd", cleanup_policy="compact,delete")
        broker.create_topic("b", compression_type="uncompressed", kqueue_partitioner="sticky")
        found = ask(broker.bootstrap)
    assert {name: topics for name, topics in found.topics["codec"].items() if topics} == {"zstd": {"a"}, "none": {"b"}}
    assert found.topics["cleanup-policy"] == {"compact": {"a"}, "delete": {"a", "b"}}
    assert found.topics["partitioner"]["sticky"] == {"b"}
    assert found.topics["partitioner"]["murmur2"] >= {"a"}
    assert found.brokers["storage"] == {"memory": {7}}
    assert found.brokers["metadata-store"] == {"memory": {7}}
    assert found.preferred == frozenset()


def test_nobody_answers() -> None:
    with Broker() as broker:
        where = broker.bootstrap
    with pytest.raises(click.ClickException, match="no broker answers") as none:
        ask(where)
    assert "name another with --bootstrap-server" in none.value.message
