from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, GroupDescription, GroupListing, TopicPartition
from kqueue.console.groups.group_view import GroupView, OffsetRow, group_charts, group_view, partition_histories
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.tests.client.serving import batch
from kqueue.tests.console.history.samples import START_MS, snapshot

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
LISTING = GroupListing("billing", "consumer", "Empty", "classic")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("gone")
        with Client(broker.bootstrap) as client:
            client.produce({ZERO: batch([b"x"] * 3), ONE: batch([b"x"] * 9)})
            client.commit("billing", {ZERO: 1, ONE: 2, TopicPartition("gone", 0): 0})
            client.delete_topics(["gone"])
            client.commit("committed-nothing", {})
        yield broker


def test_the_partitions_with_the_most_lag_are_first(broker: Broker) -> None:
    with Client(broker.bootstrap) as client:
        view = group_view(client, LISTING, client.metadata())
    rows = [(row.name, row.position, row.end, row.lag) for row in view.partitions if row.topic == "orders"]
    assert rows == [("orders-1", 2, 9, 7), ("orders-0", 1, 3, 2)]
    assert (view.lag, view.is_share, view.is_streams) == (9, False, False)
    assert "orders" in view.topics


def test_a_group_without_offsets_has_no_lag(broker: Broker) -> None:
    with Client(broker.bootstrap) as client:
        view = group_view(client, LISTING._replace(name="nobody"), client.metadata())
    assert (view.partitions, view.lag, view.topics) == ([], None, [])


def recorded() -> ClusterHistory:
    history = ClusterHistory(10_000)
    for number in range(3):
        now_ms = START_MS + number * 10_000
        history.record(now_ms, snapshot(number * 10.0, {ZERO: 5 + number, ONE: 5}, {"billing": {ZERO: 5, ONE: 5}}))
    return history


VIEW = GroupView(
    GroupDescription("billing", "classic", "Empty"),
    [OffsetRow("orders", 0, 5, 7, 2), OffsetRow("orders", 1, 5, 5, 0)],
)


def test_each_partition_has_its_history() -> None:
    histories = partition_histories(recorded(), "billing", VIEW.partitions, START_MS + 70_000)
    assert "<path" in histories["orders-0"].spark
    since = histories["orders-0"].since
    assert since is not None
    assert since.ago == "1 min"
    assert histories["orders-1"].since is None
    assert partition_histories(None, "billing", VIEW.partitions, 0) == {}


def test_the_lag_of_the_group_and_of_its_partitions_is_drawn() -> None:
    charts = group_charts(recorded(), VIEW, 0)
    assert [[entry.name for entry in chart.legend] for chart in charts] == [
        ["all partitions"],
        ["orders-0", "orders-1"],
    ]
    assert all(chart.svg for chart in charts)
    one = GroupView(VIEW.description, VIEW.partitions[:1])
    assert len(group_charts(recorded(), one, 1)) == 1
