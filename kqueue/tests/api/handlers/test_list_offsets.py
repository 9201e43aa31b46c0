from __future__ import annotations

from typing import Any

import pytest

from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import append, end_transaction, transaction
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, produce_request, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NOW_MS = 1_700_000_000_000
LATEST, EARLIEST, GREATEST_TIME, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
NOWHERE = (0, -1, -1, -1)


def ask(
    client: SimulatedClient, version: int, *partitions: ListOffsetsPartition, topic: str = "t", isolation: int = 0
) -> ListOffsetsResponse:
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=list(partitions))]
    )
    response: ListOffsetsResponse = client.ask(request, version)
    return response


def partition_response(
    client: SimulatedClient, version: int, timestamp: int, *, topic: str = "t", index: int = 0, **fields: Any
) -> ListOffsetsPartitionResponse:
    isolation = fields.pop("isolation", 0)
    requested = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
    ((data,),) = (
        topic_response.partitions
        for topic_response in ask(client, version, requested, topic=topic, isolation=isolation).topics
    )
    assert data.partition_index == index
    return data  # type: ignore[no-any-return]


def position(client: SimulatedClient, version: int, timestamp: int, **fields: Any) -> tuple[int, int, int, int]:
    data = partition_response(client, version, timestamp, **fields)
    return data.error_code, data.timestamp, data.offset, data.leader_epoch


@pytest.fixture
def client() -> SimulatedClient:
    """Records at NOW, NOW+1 (offsets 0, 1), NOW+100 (2) and NOW+50 (3)."""
    client = SimulatedClient()
    client.sim.topic("t", 2)
    client.sim.broker.replicas.host.sole_replica.begin_epoch(3)
    client.produce("t", batch(b"a", b"b"))
    client.produce("t", batch(b"c", time_ms=NOW_MS + 100))
    client.produce("t", batch(b"d", time_ms=NOW_MS + 50))
    return client


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_and_times(client: SimulatedClient, version: int) -> None:
    epoch = 3 if version >= 4 else -1
    assert position(client, version, LATEST) == (0, -1, 4, epoch)
    assert position(client, version, EARLIEST) == (0, -1, 0, epoch)
    for time_ms, expected in ((0, (0, 0)), (1, (1, 1)), (2, (100, 2)), (100, (100, 2)), (-(10**6), (0, 0))):
        assert position(client, version, NOW_MS + time_ms) == (0, NOW_MS + expected[0], expected[1], epoch)
    assert position(client, version, NOW_MS + 101) == NOWHERE


@pytest.mark.parametrize("version", range(1, 12))
def test_an_empty_partition(client: SimulatedClient, version: int) -> None:
    epoch = 3 if version >= 4 else -1
    assert position(client, version, LATEST, index=1) == (0, -1, 0, epoch)
    assert position(client, version, EARLIEST, index=1) == (0, -1, 0, epoch)
    assert position(client, version, NOW_MS, index=1) == NOWHERE


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (GREATEST_TIME, 7, (0, NOW_MS + 100, 2, 3)),
        (EARLIEST_LOCAL, 8, (0, -1, 0, 3)),
        (LATEST_TIERED, 9, NOWHERE),
        (EARLIEST_PENDING, 11, NOWHERE),
        (-7, 99, NOWHERE),
        (-(2**63), 99, NOWHERE),
    ],
)
def test_other_places_come_with_their_versions(
    client: SimulatedClient, version: int, timestamp: int, since: int, expected: tuple[int, int, int, int]
) -> None:
    if version >= since:
        assert position(client, version, timestamp) == expected
    else:
        assert position(client, version, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


def test_the_greatest_time_of_an_empty_log_has_no_offset(client: SimulatedClient) -> None:
    assert position(client, 11, GREATEST_TIME, index=1) == NOWHERE


def test_earliest_is_the_log_start(client: SimulatedClient) -> None:
    client.sim.broker.topics.partition("t", 0).log.advance_start(2)
    assert position(client, 5, EARLIEST) == (0, -1, 2, 3)
    assert position(client, 5, NOW_MS) == (0, NOW_MS + 100, 2, 3)


def test_each_offset_has_the_epoch_that_wrote_it(client: SimulatedClient) -> None:
    client.sim.broker.replicas.host.sole_replica.begin_epoch(8)
    client.produce("t", batch(b"e", time_ms=NOW_MS + 500))
    assert position(client, 5, NOW_MS + 100) == (0, NOW_MS + 100, 2, 3)
    assert position(client, 5, NOW_MS + 200) == (0, NOW_MS + 500, 4, 8)
    assert position(client, 5, LATEST) == (0, -1, 5, 8)
    assert position(client, 5, EARLIEST) == (0, -1, 0, 3)


@for_each("version", range(2, 12))
def test_read_committed_clients_see_no_further_than_the_last_stable_offset(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    append(client, transaction(b"open", 1))
    append(client, batch(b"plain"))
    assert partition_response(client, version, LATEST).offset == 2
    assert partition_response(client, version, LATEST, isolation=1).offset == 0
    assert partition_response(client, version, NOW_MS).offset == 0
    assert partition_response(client, version, NOW_MS, isolation=1).offset == -1
    end_transaction(client, 1, commits=True)
    assert partition_response(client, version, LATEST, isolation=1).offset == 3


@pytest.mark.parametrize("version", versions_of("list_offsets"))
def test_unknown_partitions_are_reported_individually(client: SimulatedClient, version: int) -> None:
    requested = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 9)]
    known, unknown = ask(client, version, *requested).topics[0].partitions
    assert known.error_code == 0
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (unknown.offset, unknown.timestamp, unknown.old_style_offsets) == (-1, -1, [])
    assert (
        partition_response(client, version, LATEST, topic="nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_a_duplicate_partition_is_refused(client: SimulatedClient) -> None:
    requested = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 1, 0)]
    codes = [data.error_code for data in ask(client, 5, *requested).topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(4, 12))
def test_clients_of_another_epoch_get_an_error(client: SimulatedClient, version: int) -> None:
    assert (
        partition_response(client, version, LATEST, current_leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    )
    assert (
        partition_response(client, version, LATEST, current_leader_epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    )
    assert partition_response(client, version, LATEST, current_leader_epoch=3).error_code == 0


@for_each(
    "timestamp, count, expected",
    [
        (LATEST, 1, [4]),
        (LATEST, 100, [4, 3, 2, 0]),
        (LATEST, 2, [4, 3]),
        (EARLIEST, 5, [0]),
        (LATEST, 0, []),
        (LATEST, -3, []),
        (NOW_MS - 1, 5, []),
        (NOW_MS + 10, 5, [4, 0]),
        (NOW_MS + 100, 5, [4, 3, 2, 0]),
    ],
)
def test_version_0_returns_segment_base_offsets(timestamp: int, count: int, expected: list[int]) -> None:
    client = SimulatedClient()
    client.sim.topic("t", segment_bytes="160")
    client.produce("t", batch(b"a", b"b"))  # one segment each
    client.produce("t", batch(b"c" * 80, time_ms=NOW_MS + 20))
    client.produce("t", batch(b"d" * 80, time_ms=NOW_MS + 30))
    data = partition_response(client, 0, timestamp, max_num_offsets=count)
    assert (data.error_code, data.old_style_offsets) == (0, expected)


def test_version_0_supports_two_special_timestamps(client: SimulatedClient) -> None:
    assert partition_response(client, 0, GREATEST_TIME).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(7, 12))
def test_the_greatest_time_is_that_of_a_record_that_can_be_read(client: SimulatedClient, version: int) -> None:
    """S4.2: not one before the log start; and for read_committed clients none, as in Kafka 4.3, if
    it lies beyond the last stable offset.
    """
    partition = client.sim.broker.topics.partition("t", 0)
    partition.log.advance_start(3)
    assert position(client, version, GREATEST_TIME) == (0, NOW_MS + 50, 3, 3)
    append(client, transaction(b"open", 1))
    append(client, batch(b"later", time_ms=NOW_MS + 900))
    assert position(client, version, GREATEST_TIME) == (0, NOW_MS + 900, 5, 3)
    assert position(client, version, GREATEST_TIME, isolation=1) == NOWHERE
    partition.log.advance_start(6)
    assert position(client, version, GREATEST_TIME) == NOWHERE


@for_each("version", range(9, 12))
def test_places_in_a_log_that_begins_within_a_segment_and_has_gaps(version: int) -> None:
    """S4.2, S5.2: the earliest offset is the log start, be there a record or a gap; nothing lies in
    a remote tier.
    """
    client = SimulatedClient()
    client.sim.topic("t")
    client.sim.broker.replicas.host.sole_replica.begin_epoch(2)
    append(client, batch(b"a", b"b", b"c"))
    client.sim.broker.replicas.host.sole_replica.begin_epoch(4)
    partition = client.sim.broker.topics.partition("t", 0)
    partition.log.end_offset = 7  # as compaction leaves it where the records from 3 to 6 are gone
    append(client, batch(b"d", time_ms=NOW_MS + 10))
    for start, epoch in ((0, 2), (1, 2), (2, 2), (3, 2), (5, 2), (7, 4)):
        partition.log.advance_start(start)
        assert position(client, version, EARLIEST) == (0, -1, start, epoch)
        assert position(client, version, EARLIEST_LOCAL) == (0, -1, start, epoch)
        assert position(client, version, GREATEST_TIME) == (0, NOW_MS + 10, 7, 4)
        assert position(client, version, LATEST_TIERED) == NOWHERE
        after = min(offset for offset in (0, 1, 2, 7) if offset >= start)
        assert position(client, version, NOW_MS) == (
            0,
            NOW_MS + (10 if after == 7 else after),
            after,
            4 if after == 7 else 2,
        )


# --- records that are appended and not flushed (kqueue.flush=group)


WAITING = [(version, timestamp) for version in range(1, 12) for timestamp in (LATEST, NOW_MS)]
WAITING += [(version, GREATEST_TIME) for version in range(7, 12)]


@pytest.fixture
def unflushed() -> SimulatedClient:
    """One record flushed and one, of a later time, appended with acks=1 since; partition 1 is
    empty.
    """
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 2)
    client.produce("t", batch(b"a", time_ms=NOW_MS - 100))
    client.start(produce_request(client, "t", batch(b"b"), acks=1), 9)
    return client


def list_request(timestamp: int, index: int = 0, **fields: Any) -> ListOffsetsRequest:
    requested = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[requested])], **fields)


def error_and_offset(started: PendingRequest) -> tuple[int, int]:
    data = started.response.topics[0].partitions[0]
    return data.error_code, data.offset


@pytest.mark.parametrize(("version", "timestamp"), WAITING)
@pytest.mark.parametrize("isolation", [0, 1])
def test_answer_waits_for_the_flush_of_earlier_appends(
    unflushed: SimulatedClient, version: int, timestamp: int, isolation: int
) -> None:
    started = unflushed.start(list_request(timestamp, isolation_level=isolation if version >= 2 else 0), version)
    assert started.response is None
    unflushed.sim.broker.scheduler.purgatory.run_ready()
    assert started.response is None
    assert len(unflushed.sim.jobs.pending) == 1, "one flush, shared"
    unflushed.sim.settle()
    assert error_and_offset(started) == (0, 2 if timestamp == LATEST else 1)


def test_version_0_waits_too(unflushed: SimulatedClient) -> None:
    started = unflushed.start(list_request(LATEST), 0)
    assert started.response is None
    unflushed.sim.settle()
    assert started.response.topics[0].partitions[0].old_style_offsets == [2]  # type: ignore[attr-defined]


def test_later_appends_do_not_delay_the_answer(unflushed: SimulatedClient) -> None:
    started = unflushed.start(list_request(LATEST), 7)
    unflushed.sim.broker.scheduler.purgatory.run_ready()
    unflushed.start(produce_request(unflushed, "t", batch(b"c"), acks=1), 9)
    assert unflushed.sim.jobs.step()
    while started.response is None:
        assert unflushed.sim.broker.scheduler.purgatory.run_ready(), "the first flush answers"
    assert error_and_offset(started) == (0, 2)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(EARLIEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)]
)
def test_timestamps_independent_of_the_end_are_answered_at_once(
    unflushed: SimulatedClient, timestamp: int, version: int
) -> None:
    assert unflushed.start(list_request(timestamp), version).response is not None


def test_a_flushed_partition_is_answered_at_once(unflushed: SimulatedClient) -> None:
    assert error_and_offset(unflushed.start(list_request(LATEST, 1), 7)) == (0, 0)


@for_each("mode", [{"kqueue.flush": "kafka", "kqueue.storage": "local"}, {"kqueue.storage": "memory"}])
def test_other_modes_never_wait(mode: dict[str, object]) -> None:
    client = SimulatedClient(mode)
    client.sim.topic("t", 1)
    client.start(produce_request(client, "t", batch(b"b"), acks=1), 9)
    assert error_and_offset(client.start(list_request(LATEST), 7)) == (0, 1)


@pytest.mark.parametrize(
    ("version", "fields", "wait_ms", "code"),
    [
        (4, {}, 10_000, ErrorCode.LEADER_NOT_AVAILABLE),
        (5, {}, 10_000, ErrorCode.OFFSET_NOT_AVAILABLE),
        (10, {"timeout_ms": 0}, 10_000, ErrorCode.OFFSET_NOT_AVAILABLE),
        (10, {"timeout_ms": 1500}, 1500, ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
)
def test_a_flush_that_does_not_end_is_answered_with_a_retriable_error(
    unflushed: SimulatedClient, version: int, fields: dict[str, int], wait_ms: int, code: ErrorCode
) -> None:
    sim = unflushed.sim
    started = unflushed.start(list_request(LATEST, **fields), version)
    for passed_ms in (wait_ms - 1, 1):
        assert started.response is None
        sim.clock.advance(passed_ms)
        sim.broker.scheduler.timers.run_due(sim.clock.monotonic_ms())
        sim.broker.scheduler.purgatory.run_ready()
    assert error_and_offset(started) == (code, -1)


def test_after_a_failed_flush_the_answer_is_what_consumers_see() -> None:
    storage = FaultyStorage()
    client = SimulatedClient(sim=Simulation({}, storage=storage))
    client.sim.topic("t", 1)
    client.produce("t", batch(b"a"))
    storage.fail("sync", lambda path: path.endswith(".log"))
    client.start(produce_request(client, "t", batch(b"b"), acks=1), 9)
    started = client.start(list_request(LATEST), 7)
    client.sim.settle()
    assert error_and_offset(started) == (0, 1)


def test_a_partition_that_is_deleted_meanwhile_is_unknown(unflushed: SimulatedClient) -> None:
    sim = unflushed.sim
    started = unflushed.start(list_request(LATEST), 7)
    deleted = sim.broker.topics.delete("t")
    sim.settle()
    assert deleted.done
    assert started.response is not None
