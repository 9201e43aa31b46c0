from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import (
    Client,
    ConfigChange,
    ConfigOperation,
    ElectionType,
    NewTopic,
    OffsetAndMetadata,
    ResourceType,
    TopicPartition,
)
from kqueue.client.errors import BrokerRefused
from kqueue.tests.client.serving import batch
from kqueue.tests.served_cluster import bootstrap, served_cluster
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

PARTITIONS = [TopicPartition("t", index) for index in range(3)]


def test_a_single_broker_answers_the_calls_of_a_cluster() -> None:
    with kqueue.Broker(node_id=7) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("t", 2)
        one, two = TopicPartition("t", 0), TopicPartition("t", 1)
        described = client.cluster.describe()
        assert (described.controller, list(described.brokers), described.fenced) == (7, [7], frozenset())
        assert client.cluster.elect_leaders() == {}
        outcomes = client.cluster.elect_leaders([one, two], election_type=ElectionType.UNCLEAN)
        assert {partition: refusal.code for partition, refusal in outcomes.items()} == {one: 84, two: 84}
        assert {
            partition: refusal.code for partition, refusal in client.cluster.reassign({one: [7], two: [8]}).items()
        } == {two: 39}
        assert client.cluster.reassign({one: None})[one].code == 85
        assert client.cluster.reassignments() == client.cluster.reassignments([one]) == {}
        (folder,) = client.cluster.log_dirs(7, [one])
        assert list(folder.sizes) == [one]
        with pytest.raises(BrokerRefused, match="BROKER_ID_NOT_REGISTERED"):
            client.cluster.unregister_broker(3)


# --- several brokers


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[kqueue.Broker]]:
    with served_cluster(tmp_path_factory.mktemp("cluster")) as brokers, Client(bootstrap(brokers)) as client:
        client.create_topics([NewTopic("t", 3, 1)])
        yield brokers


def test_all_brokers_show_the_same_cluster(brokers: list[kqueue.Broker]) -> None:
    shown = []
    for broker in brokers:
        with Client(broker.bootstrap, missing_topic_ms=10_000) as client:
            described, metadata = client.cluster.describe(), client.metadata(["t"])
            shown.append((described.cluster_id, described.controller, metadata.controller, metadata.topics["t"]))
            assert [node.port for node in metadata.brokers.values()] == [one.port for one in brokers]
            assert [node.rack for node in metadata.brokers.values()] == ["rack1", "rack2", "rack3"]
    assert shown[0] == shown[1] == shown[2]
    assert {row.leader for row in shown[0][3].partitions.values()} == {1, 2, 3}


@pytest.mark.parametrize("index", range(3))
def test_partitions_are_written_and_read_at_their_leaders(brokers: list[kqueue.Broker], index: int) -> None:
    with Client(brokers[index].bootstrap) as client:
        before = client.offsets(dict.fromkeys(PARTITIONS, -1))
        written = client.produce({one: batch([b"a"]) for one in PARTITIONS})
        assert {one: row.base_offset for one, row in written.items()} == {one: before[one].offset for one in PARTITIONS}
        fetched = client.fetch({one: before[one].offset for one in PARTITIONS})
        assert all(fetched[one].next_offset == before[one].offset + 1 for one in PARTITIONS)
        ends = {one: row.offset for one, row in client.offsets(dict.fromkeys(PARTITIONS, -1)).items()}
        assert client.delete_records(ends) == ends


@pytest.mark.parametrize("index", range(3))
def test_groups_are_asked_of_their_coordinators(brokers: list[kqueue.Broker], index: int) -> None:
    names = [f"g{index}-{number}" for number in range(12)]
    with Client(brokers[index].bootstrap) as client:
        for number, name in enumerate(names):
            client.commit(name, {PARTITIONS[0]: OffsetAndMetadata(number)})
        for other in brokers:
            with Client(other.bootstrap) as asked:
                offsets = [asked.committed(name)[PARTITIONS[0]].offset for name in names]
                assert offsets == list(range(12))
        assert set(names) <= set(client.groups())


def test_settings_of_one_broker_are_asked_of_it(brokers: list[kqueue.Broker]) -> None:
    with Client(brokers[0].bootstrap) as client:
        change = ConfigChange(ConfigOperation.SET, "log.retention.ms", "77000")
        client.alter_configs(ResourceType.BROKER, "3", [change])
        described = client.configs(ResourceType.BROKER, ["2", "3"], ["log.retention.ms"])
        assert [described[id]["log.retention.ms"].value for id in ("2", "3")] != ["77000", "77000"]
        assert described["3"]["log.retention.ms"].value == "77000"
        change = ConfigChange(ConfigOperation.SET, "log.cleaner.threads", "2")
        client.alter_configs(ResourceType.BROKER, "", [change])

        def threads() -> set[str | None]:
            described = client.configs(ResourceType.BROKER, ["1", "2", "3"], ["log.cleaner.threads"])
            return {described[id]["log.cleaner.threads"].value for id in ("1", "2", "3")}

        eventually(lambda: threads() == {"2"})


def test_a_leader_that_moved_is_found(brokers: list[kqueue.Broker]) -> None:
    partition = TopicPartition("moving", 0)
    with Client(brokers[0].bootstrap) as client, Client(brokers[1].bootstrap) as other:
        client.create_topics([NewTopic("moving", 1, 3)])
        first, second, *_ = client.metadata(["moving"]).topics["moving"].partitions[0].replicas
        client.offsets({partition: -1})
        assert other.cluster.reassign({partition: [second, first]}) == {}
        assert {one: refusal.code for one, refusal in other.cluster.elect_leaders([partition]).items()} == {
            partition: 0
        }
        assert client.offsets({partition: -1})[partition].offset == 0, "it asked the former leader first"
        assert client.metadata(["moving"]).topics["moving"].partitions[0].leader == second


@pytest.mark.parametrize("stop", corners(["kill", "stop"]))
def test_a_dead_broker_is_waited_for_only_until_others_have_its_groups(stop: str) -> None:
    """It was asked until the timeout of the call, although the cluster had removed it."""
    with kqueue.Cluster(brokers=3) as cluster, Client(cluster.bootstrap, timeout_ms=3_600_000) as client:
        cluster.create_topic("t")
        partition = TopicPartition("t", 0)
        names = [f"group-{number}" for number in range(12)]
        for name in names:
            client.commit(name, {partition: OffsetAndMetadata(0)})
            client.transactions.init(name, 60_000)
        assert list(client.groups()) == sorted(names)
        former = client.transactions.find()
        [dead] = [id for id in former if former[id]][:1]
        getattr(cluster, stop)(dead)
        assert list(client.groups()) == sorted(names)
        listed = client.transactions.find()
        assert dead not in listed
        assert sorted(one.transactional_id for transactions in listed.values() for one in transactions) == sorted(names)
