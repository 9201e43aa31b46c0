"""A cluster of three under clients: leaders and coordinators are killed, stopped and moved,
replicas are missing, consumers read from their own rack. Only with ``--cluster``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import (
    CONSUMER_PROTOCOL,
    IDEMPOTENCE,
    RECONNECTING_TRANSACTIONS,
    SHARE_GROUPS,
    Client,
    Consumer,
    ConsumerOptions,
    PendingSend,
    Place,
    Producer,
    Record,
)
from compat_tests.clients.brokers import SETTINGS, RunningBroker
from compat_tests.clients.cluster import MEMBERS, ClusterOfProcesses
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.group_members import ConsumerThread
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all
from compat_tests.waits import eventually
from kqueue.base.coordinators import coordinator_partition

Name = Callable[[str], str]
KILLED, STOPPED, MOVED = "killed", "stopped", "moved"
EVENTS = (KILLED, STOPPED, MOVED)
# a broker that stops hands over what it leads, as when it is moved, and ends connections
EVENTS_OF_COORDINATORS = (KILLED, pytest.param(STOPPED, marks=pytest.mark.one_client), MOVED)
METADATA_AGE_MS = 500
"""aiokafka looks for no new leader when it asks a former one for the first offset."""
NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
COORDINATOR_PARTITIONS = int(str(SETTINGS["offsets.topic.num.partitions"]))
CLUSTER_SETTINGS = {
    **SETTINGS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 2000,
    "share.coordinator.state.topic.num.partitions": 4,
}


@pytest.fixture(scope="module")
def processes(storage: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfProcesses]:
    with ClusterOfProcesses(tmp_path_factory.mktemp("cluster"), CLUSTER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(processes: ClusterOfProcesses) -> Iterator[ClusterOfProcesses]:
    """All brokers run, in sync; those that a test ended are started after it."""
    processes.restore()
    yield processes
    processes.restore()


@pytest.fixture
def place(cluster: ClusterOfProcesses, name: Name) -> Place:
    """A partition with three replicas."""
    place = Place(name("topic"), 0)
    protocol_client.create_topic(cluster.bootstrap, place.topic)
    return place


def change_leader(cluster: ClusterOfProcesses, place: Place, event: str) -> None:
    """Let another broker lead the partition."""
    leader = cluster.leader(place)
    if event == KILLED:
        cluster.kill(leader)
    elif event == STOPPED:
        cluster.stop(leader)
    else:
        cluster.move(place, *((leader + step) % MEMBERS for step in range(1, MEMBERS + 1)))


def coordinator(topic: str, id: str) -> Place:
    """Return the partition whose leader is the coordinator of a group or transactional id."""
    return Place(topic, coordinator_partition(id, COORDINATOR_PARTITIONS))


class Stream:
    """A producer that sends numbered records in a thread, until `stop`."""

    def __init__(self, producer: Producer, place: Place) -> None:
        self.pending: list[PendingSend] = []
        self._producer = producer
        self._place = place
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            value = b"value-%d" % len(self.pending)
            self.pending.append(self._producer.send(self._place.topic, value, partition=self._place.partition))

    def go_on(self, count: int = 100) -> None:
        """Return once this many more are confirmed."""
        wanted = len(self.pending) + count
        eventually(lambda: len(self.pending) > wanted, "the stream goes on")
        self.pending[wanted].result()

    def stop(self) -> list[bytes]:
        """Return all values, each confirmed."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._producer.flush()
        for each in self.pending:
            each.result()
        return numbered(len(self.pending))


@pytest.mark.parametrize("event", EVENTS)
def test_a_stream_is_written_and_read_once_over_changes_of_leaders(
    cluster: ClusterOfProcesses, place: Place, connect: ClientFactory, needs: Callable[[str], None], event: str
) -> None:
    needs(IDEMPOTENCE)
    consumer = connect.consumer(cluster.bootstrap, assign=[place], metadata_age_ms=METADATA_AGE_MS)
    stream = Stream(connect.producer(cluster.bootstrap, idempotent=True, batch_bytes=500), place)
    stream.go_on()
    records = collect_some(consumer, 100)
    change_leader(cluster, place, event)
    stream.go_on()
    cluster.restore()
    change_leader(cluster, place, event)
    stream.go_on()
    values = stream.stop()
    records += collect(consumer, len(values) - len(records))
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(len(values)))
    nothing_more(consumer)


def collect_some(consumer: Consumer, count: int) -> list[Record]:
    """Return at least `count` records."""
    records: list[Record] = []

    def enough() -> bool:
        records.extend(consumer.poll(0.5))
        return len(records) >= count

    eventually(enough, f"{count} records")
    return records


@pytest.mark.parametrize("event", EVENTS_OF_COORDINATORS)
def test_transactions_outlive_changes_of_leaders_and_coordinators(
    cluster: ClusterOfProcesses,
    place: Place,
    connect: ClientFactory,
    name: Name,
    needs: Callable[[str], None],
    event: str,
) -> None:
    """The leader changes within a transaction, and the coordinator within another."""
    needs(RECONNECTING_TRANSACTIONS)
    transactional_id = name("txn")
    producer = connect.producer(cluster.bootstrap, transactional_id=transactional_id)
    changes = {3: place, 6: coordinator("__transaction_state", transactional_id)}
    expected = []
    for number in range(10):
        producer.begin_transaction()
        values = numbered(4, f"transaction-{number}")
        send_all(producer, place.topic, values[:2])
        if number in changes:
            change_leader(cluster, changes[number], event)
            cluster.restore()
        send_all(producer, place.topic, values[2:])
        if number % 5 == 4:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += values
    reader = connect.consumer(cluster.bootstrap, assign=[place], read_committed=True, metadata_age_ms=METADATA_AGE_MS)
    assert [record.value for record in collect(reader, len(expected))] == expected
    nothing_more(reader)


@pytest.mark.parametrize("event", EVENTS_OF_COORDINATORS)
def test_a_group_outlives_changes_of_leaders_and_coordinators(
    cluster: ClusterOfProcesses,
    place: Place,
    client: Client,
    connect: ClientFactory,
    name: Name,
    needs: Callable[[str], None],
    event: str,
) -> None:
    needs(IDEMPOTENCE)
    group = name("group")
    options = ConsumerOptions(group=group, metadata_age_ms=METADATA_AGE_MS)
    producer = connect.producer(cluster.bootstrap, idempotent=True)
    expected: list[bytes | None] = []
    with ConsumerThread(client, cluster.bootstrap, [place.topic], options, commit=True) as member:

        def is_read(stem: str) -> None:
            values = numbered(20, stem)
            expected.extend(values)
            send_all(producer, place.topic, values)
            eventually(lambda: {record.value for record in member.records} >= set(values), f"{stem} is read")

        is_read("before")
        for changed in (place, coordinator("__consumer_offsets", group)):
            change_leader(cluster, changed, event)
            is_read(f"after {changed.topic} changed")
            cluster.restore()
        committed = [len(expected)]
        eventually(lambda: protocol_client.committed(cluster.bootstrap, group, [place]) == committed, "all committed")
    assert list(dict.fromkeys(record.value for record in member.records)) == expected
    heir = connect.consumer(cluster.bootstrap, place.topic, group=group, metadata_age_ms=METADATA_AGE_MS)
    send_all(producer, place.topic, [b"later"])
    assert [record.value for record in collect(heir, 1)] == [b"later"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_group_of_the_consumer_protocol_outlives_changes(
    cluster: ClusterOfProcesses,
    place: Place,
    connect: ClientFactory,
    name: Name,
    needs: Callable[[str], None],
    event: str,
) -> None:
    needs(CONSUMER_PROTOCOL)
    from compat_tests.clients.test_consumer_protocol import Member

    group = name("group")
    producer = connect.producer(cluster.bootstrap, idempotent=True)
    with Member(cluster.bootstrap, group, [place.topic]) as member:
        for stem, changed in (("a", None), ("b", place), ("c", coordinator("__consumer_offsets", group))):
            if changed is not None:
                change_leader(cluster, changed, event)
            values = numbered(20, stem)
            send_all(producer, place.topic, values)
            eventually(lambda values=values: set(member.values) >= set(values), "the records are read")  # type: ignore[misc]
            member.commit()
            cluster.restore()
        assert protocol_client.committed(cluster.bootstrap, group, [place]) == [60]
    assert list(dict.fromkeys(member.values)) == [*numbered(20, "a"), *numbered(20, "b"), *numbered(20, "c")]


@pytest.mark.parametrize("event", EVENTS)
def test_a_share_group_outlives_changes(
    cluster: ClusterOfProcesses, name: Name, needs: Callable[[str], None], event: str
) -> None:
    """What was accepted is not delivered again; all others are, at least once."""
    needs(SHARE_GROUPS)
    from compat_tests.clients.test_share_consumer import Group, commit

    with contextlib.ExitStack() as stack:
        group = Group(cluster.bootstrap, name, stack)
        group.configure(share_auto_offset_reset="earliest")
        place = Place(group.topic, 0)
        member = group.member()
        taken: set[int] = set()

        def take(count: int) -> None:
            wanted = len(taken) + count

            def enough() -> bool:
                for message in member.poll(0.5):
                    assert message.error() is None
                    assert message.offset() not in accepted, "an accepted record is not delivered again"
                    member.acknowledge(message)
                    taken.add(message.offset())
                return len(taken) >= wanted

            eventually(enough, f"{wanted} records")

        accepted: frozenset[int] = frozenset()
        group.produce(5)
        take(5)
        commit(member)
        accepted = frozenset(taken)
        for changed in (place, coordinator("__consumer_offsets", group.group)):
            change_leader(cluster, changed, event)
            group.produce(5)
            take(5)
            eventually(lambda: is_committed(member), "the records are accepted")
            accepted = frozenset(taken)
            cluster.restore()
        assert taken == set(range(15))


def is_committed(member: Any) -> bool:
    return not any(member.commit_sync(5).values())


def test_clients_with_stale_metadata_find_the_new_leader(
    cluster: ClusterOfProcesses, place: Place, connect: ClientFactory, needs: Callable[[str], None]
) -> None:
    """The former leader has no replica any more."""
    needs(IDEMPOTENCE)  # without it records may change their order where they are sent again
    producer = connect.producer(cluster.bootstrap, idempotent=True)
    consumer = connect.consumer(cluster.bootstrap, assign=[place])
    for number, replicas in enumerate(((0, 1), (2,), (1,))):
        cluster.move(place, *replicas)
        values = numbered(5, f"on {replicas}")
        send_all(producer, place.topic, values)
        records = collect(consumer, 5)
        assert [(record.offset, record.value) for record in records] == list(enumerate(values, 5 * number))


def test_records_wait_while_too_few_replicas_are_in_sync(
    cluster: ClusterOfProcesses, place: Place, connect: ClientFactory, needs: Callable[[str], None]
) -> None:
    """acks=all is refused below min.insync.replicas, and confirmed once another broker is back."""
    needs(IDEMPOTENCE)
    producer = connect.producer(cluster.bootstrap, idempotent=True)
    send_all(producer, place.topic, [b"before"])
    leader = cluster.leader(place)
    others = [node for node in range(MEMBERS) if node != leader]
    for node in others:
        cluster.kill(node)
    eventually(lambda: cluster.describe(place, by=leader).in_sync == (leader,), "the leader is alone")
    refusal = protocol_client.refusal_of_produce(cluster.address(leader), place)
    assert NOT_ENOUGH_REPLICAS in refusal, refusal
    pending = producer.send(place.topic, b"waits")
    with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own timeout
        pending.result(1)
    cluster.start(others[0])
    assert pending.result().offset == 1
    consumer = connect.consumer(cluster.bootstrap, assign=[place], metadata_age_ms=METADATA_AGE_MS)
    assert [record.value for record in collect(consumer, 2)] == [b"before", b"waits"]
    nothing_more(consumer)


def test_a_consumer_reads_the_replica_in_its_own_rack(
    broker: RunningBroker, name: Name, connect: ClientFactory
) -> None:
    place = Place(name("topic"), 0)
    protocol_client.create_topic(broker.bootstrap, place.topic)
    with protocol_client.asking(broker.bootstrap) as client:
        leader = client.metadata([place.topic]).topics[place.topic].partitions[0].leader
    brokers = broker.broker.brokers
    follower = brokers[(leader + 1) % MEMBERS]
    producer = connect.producer(broker.bootstrap)
    values = numbered(20)
    send_all(producer, place.topic, values)
    consumer = connect.consumer(broker.bootstrap, assign=[place], rack=f"rack-{(leader + 1) % MEMBERS}")
    assert [record.value for record in collect(consumer, 20)] == values
    for number in range(3):
        send_all(producer, place.topic, numbered(5, f"later-{number}"))
        assert len(collect(consumer, 5)) == 5

    fetches = follower.requests(api="Fetch", topic=place.topic)
    assert any(not (request.client_id or "").startswith("broker-") for request in fetches), "consumers fetch from it"
