from __future__ import annotations

import pytest

import kqueue
from kqueue.admin.rates import History
from kqueue.admin.snapshot import FENCED, MISSING, SILENT, UP, SnapshotReader
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import BrokerUnreachable, ClientError
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.waits import eventually

ONE = TopicPartition("orders", 0)


class FailingClient:
    """A client some of whose calls fail; the others are those of a real one."""

    def __init__(self, client: Client, *calls: str) -> None:
        self._client = client
        self.calls = set(calls)

    def __getattr__(self, name: str) -> object:
        if name in self.calls:
            raise BrokerUnreachable(f"{name} fails")
        return getattr(self._client, name)


def test_a_cluster_is_read_and_its_rates_follow() -> None:
    clock = ManualClock()
    with kqueue.Broker(node_id=7) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("orders", 2)
        topic = broker.topics["orders"]
        topic.produce_all(["a"] * 10, partition=0)
        client.commit("billing", {ONE: 4})
        reader, history = SnapshotReader(client, clock), History()
        first = reader.read()
        history.add(first.sample)
        (state,) = first.brokers
        assert (state.id, state.host, state.state, state.is_controller, state.load.leads) == (
            *(7, "127.0.0.1", UP, True),
            sum(len(topic.partitions) for topic in first.metadata.topics.values()),
        )
        assert first.sample.ends[ONE] == 10
        assert first.sample.groups["billing"].lag == 6
        assert first.sizes["orders"].leaders == first.sample.sizes[ONE].bytes > 0
        assert first.dirs[7][0].total_bytes is None or first.dirs[7][0].total_bytes > 0
        assert (first.counts["unavailable"], first.problems) == (0, [])
        topic.produce_all(["a"] * 30, partition=0)
        client.commit("billing", {ONE: 24})
        clock.advance(2_000)
        second = reader.read()
        assert second.sample.sizes == {}, "sizes are read every 5 seconds"
        assert second.sizes == first.sizes
        history.add(second.sample)
        assert history.topics()["orders"].records_per_s == 15.0
        trend = history.groups()["billing"]
        assert (trend.lag, trend.consumed_per_s, trend.growth_per_s) == (16, 10.0, 5.0)
        clock.advance(3_000)
        assert reader.read().sample.sizes[ONE].bytes > first.sample.sizes[ONE].bytes


def test_what_fails_is_named_and_hides_nothing_else() -> None:
    clock = ManualClock()
    with (
        kqueue.Broker(node_id=7, settings={"offsets.topic.num.partitions": 4}) as broker,
        Client(broker.bootstrap) as client,
    ):
        broker.create_topic("orders")
        client.commit("billing", {ONE: 0})
        failing = FailingClient(client)
        reader = SnapshotReader(failing, clock)  # type: ignore[arg-type]
        assert reader.read().problems == []
        failing.calls = {"groups", "committed", "offsets"}
        clock.advance(1)
        snapshot = reader.read()
        assert [line.partition(":")[0] for line in snapshot.problems] == [
            "the list of groups is an older one",
            "offsets of 1 group, of billing among them",
            "log ends of 5 partitions",
        ]
        assert list(snapshot.groups) == ["billing"]
        assert (snapshot.sample.ends, snapshot.sample.groups) == ({}, {})
        assert [broker.state for broker in snapshot.brokers] == [SILENT]
        failing.calls = {"metadata"}
        with pytest.raises(ClientError):
            reader.read()
        failing.calls = set()
        clock.advance(1)
        assert [broker.state for broker in reader.read().brokers] == [UP]


def test_groups_that_there_was_no_time_for_are_the_first_the_next_time() -> None:
    class SlowClient(FailingClient):
        def committed(self, group: str, **options: object) -> object:
            clock.advance(1_000)
            return self._client.committed(group, stable=False)

    clock = ManualClock()
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("orders")
        for name in "abc":
            client.commit(name, {ONE: 0})
        reader = SnapshotReader(SlowClient(client), clock, groups_ms=2_000)  # type: ignore[arg-type]
        assert set(reader.read().sample.groups) == {"a", "b"}
        assert set(reader.read().sample.groups) == {"c", "a"}


@pytest.mark.long
def test_brokers_that_ended_are_shown_while_replicas_name_them() -> None:
    with kqueue.Cluster(brokers=2) as cluster, Client(cluster.bootstrap) as client:
        cluster.create_topic("orders", replication_factor=2)
        reader = SnapshotReader(client, slow_every_ms=0)
        assert [broker.state for broker in reader.read().brokers] == [UP, UP]
        cluster.stop(1)
        eventually(lambda: reader.read().brokers[1].state in (FENCED, MISSING))
        snapshot = reader.read()
        one, two = snapshot.brokers
        assert (one.state, two.state in (FENCED, MISSING)) == (UP, True), two
        assert two.load.out_of_sync > 0
        assert snapshot.counts["under_replicated"] > 0
