"""When a produce request is answered: at once, once flushed, too late, never; and who leads
instead.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.handlers.produce import PAUSE_MS, PAUSES_MAX
from kqueue.api.slices import SLICE_ITEMS
from kqueue.base.errors import AnswerNotExpected, NotLeader, StorageFailed
from kqueue.broker.partition import Partition
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, produce_request, values, versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ON_DISK: dict[str, object] = {"kqueue.storage": "local"}


@pytest.fixture
def asker() -> SimulatedClient:
    asker = SimulatedClient()
    asker.sim.topic("t", 2)
    return asker


@pytest.mark.parametrize("acks", [2, -2, 5, 32767])
@pytest.mark.parametrize("version", versions_of("produce"))
def test_other_acks_are_refused_for_every_partition(asker: SimulatedClient, version: int, acks: int) -> None:
    assert asker.produce("t", batch(b"a"), version=version, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert values(asker) == []


@pytest.mark.parametrize("version", versions_of("produce"))
def test_acks_0_is_never_answered(asker: SimulatedClient, version: int) -> None:
    assert asker.produce("t", batch(b"a"), version=version, acks=0) is None
    assert values(asker) == [b"a"]


def test_an_error_with_acks_0_ends_the_connection(asker: SimulatedClient) -> None:
    request = produce_request(asker, "nobody", batch(b"a"), acks=0)
    with pytest.raises(AnswerNotExpected, match="nobody") as caught:
        asker.start(request, 9)
    with pytest.raises(AnswerNotExpected) as again:
        handler_table.error_response(request, 9, caught.value)
    assert again.value is caught.value
    with pytest.raises(AnswerNotExpected):
        handler_table.error_response(request, 9, ZeroDivisionError())


def test_acks_all_waits_for_the_flush_and_acks_1_does_not() -> None:
    asker = SimulatedClient(ON_DISK)
    partition = asker.sim.topic("t").partition(0)
    asker.sim.settle()
    all_of_them = asker.start(produce_request(asker, "t", batch(b"a"), acks=-1), 9)
    leader = asker.start(produce_request(asker, "t", batch(b"b"), acks=1), 9)
    assert all_of_them.response is None
    assert leader.response.responses[0].partition_responses[0].base_offset == 1
    assert partition.high_watermark == 0
    asker.sim.settle()
    assert all_of_them.response.responses[0].partition_responses[0].error_code == 0
    assert partition.high_watermark == 2


def test_what_is_not_flushed_in_time_is_told_with_its_offset() -> None:
    asker = SimulatedClient(ON_DISK)
    asker.sim.topic("t")
    asker.sim.settle()
    asker.sim.jobs.submit = lambda job: None  # a disk that never answers
    started = asker.start(produce_request(asker, "t", batch(b"a"), timeout_ms=1530), 9)
    asker.sim.advance(1529)
    assert started.response is None
    asker.sim.advance(1)
    (answer,) = started.response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert values(asker) == [b"a"]


def test_of_two_partitions_only_the_one_that_is_late_is_told_so() -> None:
    asker = SimulatedClient(ON_DISK)
    topic = asker.sim.topic("t", 2)
    asker.sim.settle()
    request = produce_request(asker, "t", batch(b"a"), timeout_ms=1530)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(b"b")))
    submit = asker.sim.jobs.submit
    started = asker.start(request, 9)
    topic.partition(0).flush()
    asker.sim.jobs.run_all()
    asker.sim.jobs.submit = lambda job: None
    topic.partition(1).flush()
    asker.sim.jobs.submit = submit
    asker.sim.advance(1530)
    codes = [one.error_code for one in started.response.responses[0].partition_responses]
    assert codes == [0, ErrorCode.REQUEST_TIMED_OUT]


def test_a_disk_that_fails_is_told() -> None:
    class Failing(MemoryStorage):
        broken = False

        def sync_folder(self, folder: str) -> None:
            if self.broken:
                raise StorageFailed("no such luck")
            super().sync_folder(folder)

    storage = Failing()
    asker = SimulatedClient(sim=Simulation(ON_DISK, storage=storage))
    asker.sim.topic("t")
    storage.broken = True
    assert asker.produce("t", batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert asker.produce("t", batch(b"b"), acks=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_deleted_under_a_waiting_request_is_told() -> None:
    asker = SimulatedClient(ON_DISK)
    asker.sim.topic("t")
    asker.sim.settle()
    started = asker.start(produce_request(asker, "t", batch(b"a")), 9)
    asker.sim.broker.topics.delete("t")
    while asker.sim.jobs.pending and started.response is None:
        asker.sim.jobs.step()
        asker.sim.broker.purgatory.run_ready()
    assert started.response.responses[0].partition_responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_nothing_of_the_frame_is_kept_while_waiting() -> None:
    asker = SimulatedClient(ON_DISK)
    asker.sim.topic("t")
    asker.sim.settle()
    started = asker.start(produce_request(asker, "t", batch(b"a")), 9)
    started.frame[:] = bytes(len(started.frame))
    started.frame.clear()  # BufferError, if anybody still looked at it
    asker.sim.settle()
    assert started.response.responses[0].partition_responses[0].error_code == 0
    assert values(asker) == [b"a"]


@pytest.mark.parametrize("version", versions_of("produce"))
def test_who_leads_instead_is_told_where_the_version_can(
    asker: SimulatedClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Partition, *_: Any, **__: Any) -> None:
        raise NotLeader("somebody else leads")

    monkeypatch.setattr(Partition, "append", lost)
    response = asker.ask(produce_request(asker, "t", batch(b"a"), version), version)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (
            1,
            asker.sim.broker.leader_epoch,
        )
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "127.0.0.1", 9092)]
    else:
        assert response.node_endpoints == []


# --- batches that take long to read


def long_batch(count: int = 1001, key: bytes | None = b"k") -> bytes:
    return batch(*(b"v" for _ in range(count)), key=key)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("settings", [{}, ON_DISK], ids=["memory", "disk"])
def test_a_long_batch_is_answered_once_it_is_appended(acks: int, settings: dict[str, object]) -> None:
    asker = SimulatedClient(settings)
    asker.sim.topic("t", cleanup_policy="compact")
    started = asker.start(produce_request(asker, "t", long_batch(), acks=acks, timeout_ms=0), 9)
    after = asker.start(produce_request(asker, "t", batch(b"after"), acks=acks), 9)
    started.frame[:] = bytes(len(started.frame))
    assert started.response is None
    assert after.response is None
    asker.sim.settle()
    answers = [one.response.responses[0].partition_responses[0] for one in (started, after)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1001)]
    assert len(values(asker)) == 1002


def test_a_long_batch_that_is_refused_names_its_records() -> None:
    asker = SimulatedClient()
    asker.sim.topic("t", cleanup_policy="compact")
    answer = asker.produce("t", long_batch(key=None))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert len(answer.record_errors) > 500
    assert values(asker) == []


def test_a_long_batch_with_acks_0_is_appended(asker: SimulatedClient) -> None:
    asker.sim.topic("c", cleanup_policy="compact")
    assert asker.produce("c", long_batch(), acks=0) is None
    assert len(values(asker, "c")) == 1001


def test_a_client_that_is_gone_leaves_its_long_batch_and_those_behind_it(asker: SimulatedClient) -> None:
    topic = asker.sim.topic("c", cleanup_policy="compact")
    asker.start(produce_request(asker, "c", long_batch()), 9)
    for waiters in list(asker.sim.broker.purgatory._by_key.values()):
        for waiter in list(waiters):
            waiter.cancel()
    assert asker.produce("c", batch(b"after")).base_offset == 1001
    assert topic.partition(0).appends is None


@pytest.mark.parametrize("config", [{}, {"message_timestamp_type": "LogAppendTime"}])
def test_a_request_of_very_many_partitions_waits_until_files_can_be_opened(config: dict[str, str]) -> None:
    storage = FaultyStorage()
    asker = SimulatedClient(sim=Simulation({}, storage=storage))
    sim = asker.sim
    topic = sim.topic("t", SLICE_ITEMS + 100, **config)
    sim.settle()

    def ask() -> PendingRequest:
        partitions = [PartitionProduceData(index=one.index, records=batch(b"x")) for one in topic.partitions]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=partitions)]
        )
        return asker.start(request, 9)

    def codes(started: PendingRequest) -> set[int]:
        return {one.error_code for one in started.response.responses[0].partition_responses}

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
        assert {one.log_end_offset for one in topic.partitions} == {end}
    storage.fail("append", lambda path: path.startswith("t-7/"), number=errno.EMFILE)
    started = ask()
    sim.advance(PAUSE_MS * (PAUSES_MAX + 10))
    assert codes(started) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
    assert all(one.log.offline is None for one in topic.partitions)
