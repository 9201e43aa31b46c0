"""The backlog of a topic in DescribeConfigs."""

from __future__ import annotations

import json
from typing import Any

from kqueue.api.backlog_entry import PARTITIONS_MAX
from kqueue.tests.api.harness import SimulatedClient, batch, versions_of
from kqueue.tests.broker.upkeep.cleanup_broker import commit
from kqueue.tests.tables import for_each
from kqueue.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource


def described(client: SimulatedClient, topic: str, version: int = 4) -> dict[str, Any]:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=topic)])
    rows = client.ask(request, version).results[0].configs
    return {row.name: row for row in rows}


@for_each("version", versions_of("describe_configs"))
def test_a_topic_with_a_bound_shows_its_backlog(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("plain")
    client.sim.topic("t", 2, kqueue_backlog_messages_max="3")
    assert "kqueue.backlog" not in described(client, "plain", version)
    for index in (0, 1, 1):
        client.produce("t", batch(b"order"), partition=index)
    commit(client.sim, "shop", "t", 1, partition=1)
    size = len(batch(b"order"))
    row = described(client, "t", version)["kqueue.backlog"]
    assert json.loads(row.value) == {
        "state": "open",
        "messages": 2,
        "bytes": 2 * size,
        "group": None,
        "partitions": [
            {"partition": 0, "messages": 1, "bytes": size, "group": None},
            {"partition": 1, "messages": 1, "bytes": size, "group": "shop"},
        ],
    }
    if version > 0:
        assert row.config_source == 5, "tools that copy settings leave it out"
    client.produce("t", batch(b"order"))
    assert json.loads(described(client, "t", version)["kqueue.backlog"].value)["state"] == "refusing"


def test_largest_backlogs_of_many_partitions_are_shown() -> None:
    client = SimulatedClient({"kqueue.storage": "memory"})
    client.sim.topic("t", PARTITIONS_MAX + 20, kqueue_backlog_messages_max="1000")
    for index in range(20, PARTITIONS_MAX + 20):
        client.produce("t", batch(b"order"), partition=index)
    commit(client.sim, "g" * 250, "t", 0, partition=20)
    value = described(client, "t", 3)["kqueue.backlog"].value
    assert len(value) < 32_767 // 2
    shown = json.loads(value)
    assert shown["messages"] == PARTITIONS_MAX
    assert [one["partition"] for one in shown["partitions"]] == list(range(20, PARTITIONS_MAX + 20))
