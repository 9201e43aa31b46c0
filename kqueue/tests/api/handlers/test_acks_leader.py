"""acks=1: answered once the leader has the records on its disk, where `kqueue.flush` is group."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.produce.delayed_produce import LEADER_TIMEOUT_MS_MIN
from kqueue.broker.replicas.high_watermark import HighWatermark
from kqueue.broker.replicas.partition import Partition
from kqueue.replication.registrations import PartitionRegistration
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.cluster_client import OUTSIDE, ClusterClient
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, produce_request, values, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GROUP: dict[str, object] = {"kqueue.storage": "local"}
KAFKA: dict[str, object] = {**GROUP, "kqueue.flush": "kafka"}
MEMORY: dict[str, object] = {"kqueue.storage": "memory"}
PAIR = PartitionRegistration((1, 2), (1, 2), 1)
ALONE = PartitionRegistration((1,), (1,), 1)


def client_with_topic(settings: dict[str, object], partitions: int = 1) -> tuple[SimulatedClient, Partition]:
    client = SimulatedClient(settings)
    topic = client.sim.topic("t", partitions)
    client.sim.settle()
    return client, topic.partition(0)


def outcome(started: PendingRequest) -> tuple[int, int] | None:
    """Error code and base offset; None: not answered."""
    response: Any = started.response
    if response is None:
        return None
    (row,) = response.responses[0].partition_responses
    return row.error_code, row.base_offset


def send(client: SimulatedClient, value: bytes = b"x", *, acks: int = 1, **settings: Any) -> PendingRequest:
    timeout_ms = settings.pop("timeout_ms", 1000)
    data = batch(value, **settings)
    return client.start(produce_request(client, "t", data, acks=acks, timeout_ms=timeout_ms), 9, listener=OUTSIDE)


@for_each("version", versions_of("produce"))
def test_acks_1_is_answered_when_the_record_is_flushed_and_visible(version: int) -> None:
    client, partition = client_with_topic(GROUP)
    started = client.start(produce_request(client, "t", batch(b"a"), version, acks=1), version)
    client.sim.broker.scheduler.purgatory.run_ready()  # the flush is submitted, and has not run
    assert (started.response, partition.high_watermark) == (None, 0)
    client.sim.settle()
    assert outcome(started) == (ErrorCode.NONE, 0)
    assert (partition.high_watermark, partition.log.flushed_offset) == (1, 1)


@for_each("settings", [KAFKA, MEMORY])
def test_acks_1_without_group_flush_is_answered_with_the_append(settings: dict[str, object]) -> None:
    client, partition = client_with_topic(settings)
    started = send(client)
    assert outcome(started) == (ErrorCode.NONE, 0)
    assert partition.high_watermark == 1


def test_acks_0_is_not_delayed_by_the_flush() -> None:
    client, partition = client_with_topic(GROUP)
    assert send(client, acks=0).watched is None
    assert (partition.log_end_offset, partition.high_watermark) == (1, 0)


def test_pipelined_requests_with_acks_1_share_a_flush() -> None:
    client, partition = client_with_topic(GROUP)
    send(client)
    client.sim.settle()
    flushes: list[int] = []
    submit = client.sim.jobs.submit

    def counted(job: Any) -> None:
        flushes.append(partition.log_end_offset)
        submit(job)

    client.sim.jobs.submit = counted
    started = [send(client) for _ in range(5)]
    client.sim.settle()
    assert [outcome(one) for one in started] == [(0, offset) for offset in range(1, 6)]
    assert flushes == [6]


def test_acks_1_waits_for_every_partition_of_the_request() -> None:
    client, first = client_with_topic(GROUP, 2)
    second = client.sim.broker.topics.get("t").partition(1)
    data = [PartitionProduceData(index=index, records=batch(b"x")) for index in range(2)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    submit = client.sim.jobs.submit
    started = client.start(request, 9)
    first.flush.now()
    client.sim.jobs.run_all()
    client.sim.jobs.submit = lambda job: None  # the disk of the second one hangs
    client.sim.settle()
    assert (first.high_watermark, second.high_watermark, started.response) == (1, 0, None)
    client.sim.jobs.submit = submit
    client.sim.advance(LEADER_TIMEOUT_MS_MIN)
    response: Any = started.response
    rows = response.responses[0].partition_responses
    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert "flushed" in rows[1].error_message


@for_each("timeout_ms", [0, 1, 1000, LEADER_TIMEOUT_MS_MIN + 500])
def test_acks_1_on_a_disk_that_hangs_times_out_after_half_a_minute_or_later(timeout_ms: int) -> None:
    """Kafka never answers acks=1 with a timeout, so a short one of the client does not count."""
    client, _ = client_with_topic(GROUP)
    client.sim.jobs.submit = lambda job: None
    started = send(client, timeout_ms=timeout_ms)
    client.sim.advance(max(timeout_ms, LEADER_TIMEOUT_MS_MIN) - 1)
    assert started.response is None
    client.sim.advance(1)
    assert outcome(started) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_acks_1_whose_flush_fails_gets_a_storage_error() -> None:
    storage = FaultyStorage()
    client = SimulatedClient(sim=Simulation(GROUP, storage=storage))
    client.sim.topic("t")
    assert client.produce("t", batch(b"a"), acks=1).error_code == ErrorCode.NONE
    storage.fail("sync", lambda path: path.startswith("t-0/"))
    started = [send(client), send(client)]
    client.sim.settle()
    assert [outcome(one) for one in started] == [(ErrorCode.KAFKA_STORAGE_ERROR, offset) for offset in (1, 2)]


def test_a_duplicate_is_answered_only_when_its_original_is_flushed() -> None:
    client, partition = client_with_topic(GROUP)
    idempotent = {"producer_id": 7, "epoch": 0, "base_sequence": 0}
    original = send(client, **idempotent)
    original.cancel()  # the connection broke
    duplicate = send(client, **idempotent)
    client.sim.broker.scheduler.purgatory.run_ready()
    assert (duplicate.response, partition.high_watermark) == (None, 0)
    client.sim.settle()
    assert outcome(duplicate) == (ErrorCode.NONE, 0)
    assert partition.high_watermark == partition.log_end_offset == 1
    assert outcome(send(client, **idempotent)) == (ErrorCode.NONE, 0), "it is flushed: answered at once"


def test_acks_1_during_a_delayed_roll_waits_for_its_own_flush() -> None:
    client = SimulatedClient(GROUP)
    partition = client.sim.topic("t", segment_bytes="1048576").partition(0)
    client.sim.settle()
    values_sent = [bytes([number]) * 600_000 for number in range(4)]
    started = [send(client, value) for value in values_sent]
    client.sim.settle()
    assert [outcome(one) for one in started] == [(0, offset) for offset in range(4)]
    assert partition.high_watermark == 4
    assert values(client) == values_sent


def test_acks_1_in_a_cluster_is_answered_after_the_leaders_flush_and_before_the_followers() -> None:
    client = ClusterClient(GROUP)
    partition = client.topic("t", PAIR).partitions[0]
    client.sim.settle()
    one, all_of_them = send(client), send(client, acks=-1)
    client.sim.broker.scheduler.purgatory.run_ready()
    assert (one.response, all_of_them.response) == (None, None)
    client.sim.settle()
    assert outcome(one) == (ErrorCode.NONE, 0)
    assert (all_of_them.response, partition.high_watermark, partition.log.flushed_offset) == (None, 0, 2)


@pytest.mark.parametrize("registration", [ALONE, PAIR._replace(isr=(1,))], ids=["one replica", "one in sync"])
def test_acks_1_of_the_only_replica_in_sync_is_visible_when_answered(
    registration: PartitionRegistration, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ClusterClient(GROUP)
    partition = client.topic("t", registration).partitions[0]
    client.sim.settle()
    started = send(client)
    answered_before: list[bool] = []
    advance = HighWatermark.advance

    def note(self: HighWatermark, offset: int) -> None:
        answered_before.append(started.response is not None)
        advance(self, offset)

    monkeypatch.setattr(HighWatermark, "advance", note)
    client.sim.settle()
    assert answered_before == [False]
    assert (outcome(started), partition.high_watermark) == ((ErrorCode.NONE, 0), 1)


def test_acks_1_in_a_cluster_ignores_min_insync_replicas() -> None:
    client = ClusterClient({**GROUP, "min.insync.replicas": 2})
    client.topic("t", PAIR._replace(isr=(1,)))
    client.sim.settle()
    one, all_of_them = send(client), send(client, acks=-1)
    client.sim.settle()
    assert outcome(one) == (ErrorCode.NONE, 0)
    assert outcome(all_of_them) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)


def test_acks_1_whose_leader_moves_before_the_flush_is_refused() -> None:
    client = ClusterClient(GROUP)
    partition = client.topic("t", PAIR).partitions[0]
    client.sim.settle()
    started = send(client)
    partition.apply(PAIR._replace(leader=2, leader_epoch=1, partition_epoch=9))
    client.sim.settle()
    assert outcome(started) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


def test_acks_1_whose_log_goes_offline_before_the_flush_is_refused() -> None:
    client, partition = client_with_topic(GROUP)
    started = send(client)
    partition.log.take_offline(StorageFailed("pulled out"))
    client.sim.settle()
    assert outcome(started) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
