from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
import pytest

from kqueue import Broker
from kqueue.cli.plugins.usage import BROKER_SETTINGS, TOPIC_SETTINGS, Users, _note, ask


def test_topics_and_brokers_by_what_they_use() -> None:
    with Broker(node_id=7) as broker:
        broker.create_topic("a", compression_type="zstd", cleanup_policy="compact,delete")
        broker.create_topic("b", compression_type="uncompressed", kqueue_partitioner="sticky")
        broker.create_topic("c")  # compressed by its producers: uses no codec
        usage = ask(broker.bootstrap)
    assert usage.topics["codec"] == {"zstd": {"a"}, "none": {"b"}}
    assert usage.topics["cleanup-policy"] == {"compact": {"a"}, "delete": {"a", "b", "c"}}
    assert usage.topics["partitioner"]["sticky"] == {"b"}
    assert usage.topics["partitioner"]["murmur2"] == {"a", "c"}
    assert usage.brokers["storage"] == {"memory": {7}}
    assert usage.brokers["metadata-store"] == {"memory": {7}}
    assert usage.preferred == frozenset()


def test_control_characters_of_a_broker_are_escaped() -> None:
    users: Users = defaultdict(lambda: defaultdict(set))
    _note(users, TOPIC_SETTINGS, {"cleanup.policy": "compact, \x1b[2J"}, "t")
    assert users == {"cleanup-policy": {"compact": {"t"}, r"'\x1b[2J'": {"t"}}}


def test_tier_store_in_use_is_the_scheme_of_its_url() -> None:
    users: Users = defaultdict(lambda: defaultdict(set))
    _note(users, BROKER_SETTINGS, {"kqueue.tier.url": "S3://bucket/a,b?secret_access_key=hunter2"}, 1)
    _note(users, BROKER_SETTINGS, {"kqueue.tier.url": "none"}, 2)
    assert users == {"tier-store": {"s3": {1}}}


def test_metadata_store_in_use_follows_the_storage_by_default(tmp_path: Path) -> None:
    with Broker(path=tmp_path) as broker:
        usage = ask(broker.bootstrap)
    assert usage.brokers == {
        "storage": {"local": {1}},
        "metadata-store": {"sqlite": {1}},
        "assignor": {"uniform": {1}, "range": {1}},
    }


def test_no_broker_is_an_error() -> None:
    with Broker() as broker:
        where = broker.bootstrap
    with pytest.raises(click.ClickException, match="no broker answers") as none:
        ask(where)
    assert "name another with --bootstrap-server" in none.value.message
