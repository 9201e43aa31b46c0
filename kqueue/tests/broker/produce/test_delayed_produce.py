"""When a produce request is answered: at once, once flushed, too late, never; and who leads
instead.
"""

from __future__ import annotations

import errno
import itertools
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.slices import SLICE_ITEMS, SLICE_MS
from kqueue.base.errors import AnswerNotExpected, NotLeader, StorageFailed
from kqueue.broker.produce.delayed_produce import PAUSE_MS, PAUSES_MAX
from kqueue.broker.replicas.partition import Partition
from kqueue.log.manager import LogManager
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.cluster_client import OUTSIDE, ClusterClient
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, produce_request, values, versions_of
from kqueue.tests.compiled import replaces_compiled
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ON_DISK: dict[str, object] = {"kqueue.storage": "local"}


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 2)
    return client


@pytest.mark.parametrize("acks", [2, -2, 5, 32767])
@pytest.mark.parametrize("version", versions_of("produce"))
def test_other_acks_are_refused_for_every_partition(client: SimulatedClient, version: int, acks: int) -> None:
    assert client.produce("t", batch(b"a"), version=version, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert values(client) == []


@pytest.mark.parametrize("version", versions_of("produce"))
def test_acks_0_is_never_answered(client: SimulatedClient, version: int) -> None:
    assert client.produce("t", batch(b"a"), version=version, acks=0) is None
    assert values(client) == [b"a"]


def test_an_error_with_acks_0_ends_the_connection(client: SimulatedClient) -> None:
    request = produce_request(client, "nobody", batch(b"a"), acks=0)
    with pytest.raises(AnswerNotExpected, match="nobody") as caught:
        client.start(request, 9)
    with pytest.raises(AnswerNotExpected) as again:
        handler_table.error_response(request, 9, caught.value)
    assert again.value is caught.value
    with pytest.raises(AnswerNotExpected):
        handler_table.error_response(request, 9, ZeroDivisionError())


@for_each("acks", [1, -1])
def test_a_response_waits_for_the_flush(acks: int) -> None:
    client = SimulatedClient(ON_DISK)
    partition = client.sim.topic("t").partition(0)
    client.sim.settle()
    started = [client.start(produce_request(client, "t", batch(value), acks=acks), 9) for value in (b"a", b"b")]
    assert [one.response for one in started] == [None, None]
    assert partition.high_watermark == 0
    client.sim.settle()
    rows = [one.response.responses[0].partition_responses[0] for one in started]  # type: ignore[attr-defined]
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 1)]
    assert partition.high_watermark == 2


def test_a_flush_timeout_is_reported_with_the_offset() -> None:
    client = SimulatedClient(ON_DISK)
    client.sim.topic("t")
    client.sim.settle()
    client.sim.jobs.submit = lambda job: None  # a disk that never answers
    started = client.start(produce_request(client, "t", batch(b"a"), timeout_ms=1530), 9)
    client.sim.advance(1529)
    assert started.response is None
    client.sim.advance(1)
    (partition_response,) = started.response.responses[0].partition_responses  # type: ignore[attr-defined]
    assert (partition_response.error_code, partition_response.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert values(client) == [b"a"]


def test_only_the_late_partition_reports_a_timeout() -> None:
    client = SimulatedClient(ON_DISK)
    topic = client.sim.topic("t", 2)
    client.sim.settle()
    request = produce_request(client, "t", batch(b"a"), timeout_ms=1530)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(b"b")))
    submit = client.sim.jobs.submit
    started = client.start(request, 9)
    topic.partition(0).flush.now()
    client.sim.jobs.run_all()
    client.sim.jobs.submit = lambda job: None
    topic.partition(1).flush.now()
    client.sim.jobs.submit = submit
    client.sim.advance(1530)
    codes = [partition.error_code for partition in started.response.responses[0].partition_responses]
    assert codes == [0, ErrorCode.REQUEST_TIMED_OUT]


def test_a_disk_failure_is_reported() -> None:
    class Failing(MemoryStorage):
        broken = False

        def sync_folder(self, folder: str) -> None:
            if self.broken:
                raise StorageFailed("no such luck")
            super().sync_folder(folder)

    storage = Failing()
    client = SimulatedClient(sim=Simulation(ON_DISK, storage=storage))
    client.sim.topic("t")
    storage.broken = True
    assert client.produce("t", batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("t", batch(b"b"), acks=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@for_each("acks", [1, -1])
def test_a_log_that_fails_within_the_turn_of_a_request_is_reported_at_once(acks: int) -> None:
    """No flush reports it: the log has failed before the request waits."""
    storage = FaultyStorage()
    client = SimulatedClient(sim=Simulation(ON_DISK, storage=storage))
    client.sim.topic("t")
    assert client.produce("t", batch(b"before")).error_code == 0
    appends = itertools.count()
    storage.fail("append", lambda path: path.endswith(".log") and next(appends) == 1)
    request = produce_request(client, "t", batch(b"a"), acks=acks, timeout_ms=60_000)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=0, records=batch(b"b")))
    started = client.start(request, 9)
    client.sim.settle()
    codes = [row.error_code for row in started.response.responses[0].partition_responses]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_a_topic_deleted_under_a_waiting_request_is_reported() -> None:
    client = SimulatedClient(ON_DISK)
    client.sim.topic("t")
    client.sim.settle()
    started = client.start(produce_request(client, "t", batch(b"a")), 9)
    client.sim.broker.topics.delete("t")
    while client.sim.jobs.pending and started.response is None:
        client.sim.jobs.step()
        client.sim.broker.scheduler.purgatory.run_ready()
    assert started.response.responses[0].partition_responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_nothing_of_the_frame_is_kept_while_waiting() -> None:
    client = SimulatedClient(ON_DISK)
    client.sim.topic("t")
    client.sim.settle()
    started = client.start(produce_request(client, "t", batch(b"a")), 9)
    started.frame[:] = bytes(len(started.frame))
    started.frame.clear()  # BufferError, if anybody still looked at it
    client.sim.settle()
    assert started.response.responses[0].partition_responses[0].error_code == 0
    assert values(client) == [b"a"]


@pytest.mark.parametrize("version", versions_of("produce"))
@replaces_compiled
def test_the_current_leader_is_returned_where_the_version_has_a_field(
    client: SimulatedClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disconnect(self: Partition, *_: Any, **__: Any) -> None:
        raise NotLeader("somebody else leads")

    monkeypatch.setattr(Partition, "append", disconnect)
    response = client.ask(produce_request(client, "t", batch(b"a"), version), version)
    (partition_response,) = response.responses[0].partition_responses
    assert partition_response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (partition_response.current_leader.leader_id, partition_response.current_leader.leader_epoch) == (
            1,
            client.sim.broker.replicas.host.sole_replica.leader_epoch,
        )
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "127.0.0.1", 9092)]
    else:
        assert response.node_endpoints == []


def test_leaders_of_a_cluster_are_returned_with_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ClusterClient()
    replicas = PartitionRegistration((1, 2, 3), (1, 2, 3), 2, leader_epoch=4)
    client.topic("t", replicas, replicas._replace(leader=3), replicas, replicas._replace(leader=NO_LEADER))

    def refuse(self: Partition, *_: Any, **__: Any) -> None:
        raise NotLeader("somebody else leads")

    monkeypatch.setattr(Partition, "append", refuse)
    data = [PartitionProduceData(index=index, records=batch(b"a")) for index in range(4)]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    response = client.ask(request, 12)
    leaders = [row.current_leader for row in response.responses[0].partition_responses]
    assert [(one.leader_id, one.leader_epoch) for one in leaders] == [(2, 4), (3, 4), (2, 4), (-1, 4)]
    assert [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints] == [
        (2, "out2", 9102, "r2"),
        (3, "out3", 9103, None),
    ]


def test_an_append_whose_leader_moved_before_it_was_committed_returns_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = ClusterClient(ON_DISK)
    topic = client.topic("t", PartitionRegistration((1, 2), (1, 2), 1))
    started = client.start(produce_request(client, "t", batch(b"a"), 12), 12, listener=OUTSIDE)
    assert started.response is None, "its flush is due"

    def moved(self: Partition, offset: int) -> bool:
        raise NotLeader("somebody else leads now")

    monkeypatch.setattr(Partition, "is_committed", moved)
    topic.partitions[0].apply(PartitionRegistration((1, 2), (2,), 2, leader_epoch=1, partition_epoch=9))
    client.sim.broker.scheduler.purgatory.wake(topic.partitions[0])
    client.sim.settle()
    response: Any = started.response
    (row,) = response.responses[0].partition_responses
    assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert [one.host for one in response.node_endpoints] == ["out2"]


# --- batches that take long to read


def long_batch(count: int = 1001, key: bytes | None = b"k") -> bytes:
    return batch(*(b"v" for _ in range(count)), key=key)


@for_each("acks", [1, -1])
@for_each("settings", [{}, ON_DISK])
def test_a_long_batch_is_answered_once_it_is_appended(acks: int, settings: dict[str, object]) -> None:
    client = SimulatedClient(settings)
    client.sim.topic("t", cleanup_policy="compact")
    started = client.start(produce_request(client, "t", long_batch(), acks=acks, timeout_ms=0), 9)
    after = client.start(produce_request(client, "t", batch(b"after"), acks=acks), 9)
    started.frame[:] = bytes(len(started.frame))
    assert started.response is None
    assert after.response is None
    client.sim.settle()
    responses = [one.response.responses[0].partition_responses[0] for one in (started, after)]
    assert [(partition_response.error_code, partition_response.base_offset) for partition_response in responses] == [
        (0, 0),
        (0, 1001),
    ]
    assert len(values(client)) == 1002


def test_a_long_batch_that_is_refused_names_its_records() -> None:
    client = SimulatedClient()
    client.sim.topic("t", cleanup_policy="compact")
    partition_response = client.produce("t", long_batch(key=None))
    assert (partition_response.error_code, partition_response.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert len(partition_response.record_errors) > 500
    assert values(client) == []


def test_a_long_batch_with_acks_0_is_appended(client: SimulatedClient) -> None:
    client.sim.topic("c", cleanup_policy="compact")
    assert client.produce("c", long_batch(), acks=0) is None
    assert len(values(client, "c")) == 1001


def test_a_client_that_is_gone_leaves_its_long_batch_and_those_behind_it(client: SimulatedClient) -> None:
    topic = client.sim.topic("c", cleanup_policy="compact")
    client.start(produce_request(client, "c", long_batch()), 9)
    for waiters in list(client.sim.broker.scheduler.purgatory._by_key.values()):
        for waiter in list(waiters):
            waiter.cancel()
    assert client.produce("c", batch(b"after")).base_offset == 1001
    assert topic.partition(0).appends is None


@for_each("settings", [{}, ON_DISK])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_request_that_opens_many_logs_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch, acks: int, settings: dict[str, object]
) -> None:
    """Other clients are served between them; a request of as many open logs takes one turn."""
    client = SimulatedClient(settings)
    sim = client.sim
    topic = sim.topic("t", 50)
    opened = LogManager.open

    def slow(self: LogManager, *args: Any, **kwargs: Any) -> Any:
        sim.clock.advance(2)
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(LogManager, "open", slow)
    for is_first in (True, False):
        data = [PartitionProduceData(index=index, records=batch(b"x")) for index in range(50)]
        request = ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
        )
        started = client.start(request, 9)
        if is_first:
            assert started.response is None
            assert sum(partition.is_open for partition in topic.partitions) < 20
        sim.settle()
        assert {partition.log_end_offset for partition in topic.partitions} == {1 if is_first else 2}
        assert {row.error_code for row in started.response.responses[0].partition_responses} == {0}


def test_a_log_that_opens_slowly_is_the_last_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load one log can take as long as a turn may: others are served before the next."""
    client = SimulatedClient()
    sim, opened = client.sim, LogManager.open
    topic = sim.topic("t", 50)

    def slow(self: LogManager, *args: Any, **kwargs: Any) -> Any:
        sim.clock.advance(SLICE_MS)
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(LogManager, "open", slow)
    data = [PartitionProduceData(index=index, records=batch(b"x")) for index in range(50)]
    client.start(
        ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9
    )
    assert sum(partition.is_open for partition in topic.partitions) == 1
    sim.settle()
    assert {partition.log_end_offset for partition in topic.partitions} == {1}


@pytest.mark.parametrize("config", corners([{}, {"message_timestamp_type": "LogAppendTime"}]))
def test_a_request_of_very_many_partitions_waits_until_files_can_be_opened(config: dict[str, str]) -> None:
    storage = FaultyStorage()
    client = SimulatedClient(sim=Simulation({}, storage=storage))
    sim = client.sim
    topic = sim.topic("t", SLICE_ITEMS + 100, **config)
    sim.settle()

    def ask() -> PendingRequest:
        partitions = [
            PartitionProduceData(index=partition.index, records=batch(b"x")) for partition in topic.partitions
        ]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
        )
        return client.start(request, 9)

    def codes(started: PendingRequest) -> set[int]:
        return {partition.error_code for partition in started.response.responses[0].partition_responses}

    for end in (1, 2):
        storage.fail("append", lambda path: path.startswith(("t-7/", "t-1050/")), number=errno.EMFILE)
        started = ask()
        for _ in range(5):
            sim.advance(PAUSE_MS)
            assert started.response is None
        storage.mend()
        for _ in range(10):
            sim.advance(PAUSE_MS)
        assert codes(started) == {0}
        assert {partition.log_end_offset for partition in topic.partitions} == {end}
    storage.fail("append", lambda path: path.startswith("t-7/"), number=errno.EMFILE)
    started = ask()
    sim.advance(PAUSE_MS * (PAUSES_MAX + 10))
    assert codes(started) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
    assert all(partition.log.health.failure is None for partition in topic.partitions)
