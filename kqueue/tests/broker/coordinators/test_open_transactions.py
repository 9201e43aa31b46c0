"""The operations that open transactions hold back, and those that they do not: reads, deletion,
retention, compaction, starts.
"""

from __future__ import annotations

import random
from typing import Any

from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import fetch, one, request, values, want
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch
from kqueue.tests.broker.fetch.test_read_committed_machine import consume
from kqueue.tests.broker.produce.test_produce_transaction import ScriptedCoordinator
from kqueue.tests.tables import for_each
from kqueue.transactions.marker_writer import TransactionMarker
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

READ_COMMITTED = 1
MODES = ["group", "kafka", "memory"]


def client_of(settings: dict[str, object] | None = None, **configs: str) -> SimulatedClient:
    storage = FaultyStorage()
    client = SimulatedClient(sim=Simulation(settings or {}, storage=storage))
    client.sim.broker.coordinators.transaction_partitions = ScriptedCoordinator(client)  # type: ignore[assignment]
    client.sim.topic("t", **configs)
    return client


def mode_of(name: str) -> dict[str, object]:
    return {"kqueue.storage": "memory"} if name == "memory" else {"kqueue.flush": name}


def put(client: SimulatedClient, value: bytes, producer: int | None = None, sequence: int = 0, epoch: int = 0) -> int:
    """Append one record, in the producer's transaction or without one; return its offset."""
    fields: dict[str, Any] = {"time_ms": client.sim.clock.wall_ms(), "key": value}
    if producer is not None:
        fields |= {"producer_id": producer, "epoch": epoch, "base_sequence": sequence, "transactional": True}
    transactional_id = None if producer is None else "tx"
    answer = client.produce("t", batch(value, **fields), version=12, transactional_id=transactional_id)
    assert answer.error_code == 0
    offset: int = answer.base_offset
    return offset


def end(client: SimulatedClient, producer: int, *, commit: bool = True) -> None:
    marker = TransactionMarker(producer, 1, commit, 0, 2, [("t", 0)])
    client.sim.broker.coordinators.markers.write(marker, lambda results: None)


def committed(client: SimulatedClient, offset: int = 0) -> list[bytes | None]:
    data = one(fetch(client, 11, want(offset=offset), isolation_level=READ_COMMITTED))
    assert data.error_code == 0
    return values(data)


@for_each("mode", MODES)
def test_a_waiting_fetch_is_answered_by_the_marker(mode: str) -> None:
    """Not by the records: read_committed consumers see none of them before."""
    client = client_of(mode_of(mode))
    fields = {"isolation_level": READ_COMMITTED, "max_wait_ms": 60_000}
    waiting = client.start(request(client, 11, want(), **fields), 11)
    other = client.start(request(client, 11, want(), max_wait_ms=60_000), 11)
    put(client, b"a", 7)
    put(client, b"b")
    client.sim.settle()
    assert other.response is not None
    assert waiting.response is None
    end(client, 7)
    client.sim.settle()
    data = one(waiting.response)
    assert values(data)[:2] == [b"a", b"b"]
    assert (data.last_stable_offset, data.high_watermark) == (3, 3)


@for_each("mode", MODES)
def test_in_a_session_too(mode: str) -> None:
    client = client_of(mode_of(mode))
    put(client, b"a", 7)
    first = fetch(client, 11, want(), session_id=0, session_epoch=0, isolation_level=READ_COMMITTED)
    assert one(first).last_stable_offset == 0

    def again(epoch: int) -> PendingRequest:
        fields: dict[str, int] = {"session_id": first.session_id, "session_epoch": epoch, "max_wait_ms": 1000}
        return client.start(request(client, 11, isolation_level=READ_COMMITTED, **fields), 11)

    waiting = again(1)
    client.sim.settle()
    assert waiting.response is None
    end(client, 7, commit=False)
    client.sim.settle()
    data = one(waiting.response)
    assert [aborted.producer_id for aborted in data.aborted_transactions or ()] == [7]
    assert data.last_stable_offset == 2


def test_the_end_for_read_committed_is_the_oldest_open_transaction() -> None:
    client = client_of()
    put(client, b"plain")
    put(client, b"a", 7)
    put(client, b"b", 8)
    client.sim.advance(1000)
    put(client, b"late")

    def offset_at(timestamp: int, isolation_level: int = READ_COMMITTED) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name="t", partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
        answer = client.ask(request, 7)
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    now_ms = client.sim.clock.wall_ms()
    assert (offset_at(-1), offset_at(-1, 0)) == (1, 4)
    assert (offset_at(now_ms), offset_at(now_ms, 0)) == (-1, 3)
    assert (offset_at(-3), offset_at(-3, 0)) == (-1, 3), "Kafka names none if the greatest time is not stable"
    end(client, 7, commit=False)
    client.sim.settle()
    assert offset_at(-1) == 2
    end(client, 8)
    client.sim.settle()
    assert offset_at(-1) == 6
    assert offset_at(now_ms) == 3


def delete_before(client: SimulatedClient, offset: int) -> None:
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    response = client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    assert response.topics[0].partitions[0].error_code == 0


@for_each("restarts", [True, False])
def test_records_of_an_open_transaction_can_be_deleted(restarts: bool) -> None:
    """As in Kafka: the log start passes its beginning; what is left becomes visible at its end."""
    client = client_of()
    put(client, b"a", 7)
    put(client, b"b", 7, 1)
    put(client, b"c", 7, 2)
    delete_before(client, 2)
    partition = client.sim.broker.topics.partition("t", 0)
    assert (partition.log_start_offset, partition.last_stable_offset) == (2, 2)
    if restarts:
        client = _restarted(client)
    assert committed(client, 2) == []
    end(client, 7)
    client.sim.settle()
    assert committed(client, 2)[:1] == [b"c"]


def test_retention_does_not_wait_for_open_transactions() -> None:
    """As in Kafka: a transaction that hangs does not fill the disk."""
    settings = {"log.retention.check.interval.ms": 1000}
    client = client_of(settings, segment_bytes="200", retention_ms="5000", cleanup_policy="delete")
    put(client, b"a", 7)
    for number in range(10):
        put(client, b"%d" % number)
    client.sim.advance(20_000)
    partition = client.sim.broker.topics.partition("t", 0)
    assert partition.log_start_offset == partition.last_stable_offset == partition.log_end_offset == 11
    end(client, 7)
    client.sim.settle()
    assert partition.last_stable_offset == partition.log_end_offset


def test_compaction_stops_at_the_oldest_open_transaction() -> None:
    settings = {"log.cleaner.backoff.ms": 1000}
    client = client_of(
        settings, segment_bytes="150", cleanup_policy="compact", min_cleanable_dirty_ratio="0", delete_retention_ms="0"
    )
    for _ in range(4):
        put(client, b"k")
    put(client, b"k", 7)
    for _ in range(4):
        put(client, b"k")
    client.sim.advance(10_000)
    assert _offsets(client) == [3, 4, 5, 6, 7, 8]
    end(client, 7, commit=False)
    last = [put(client, b"k") for _ in range(4)][-1]
    client.sim.advance(20_000)
    assert 4 not in _offsets(client)
    assert _offsets(client)[-1] == last
    assert client.sim.broker.topics.partition("t", 0).last_stable_offset == last + 1


def _offsets(client: SimulatedClient) -> list[int]:
    records, _ = consume(client, 0, 0, 1 << 20)
    return [record.offset for record in records]


@for_each("remains", Remains)
@for_each("clean", [True, False])
def test_a_start_finds_the_same_transactions_open(remains: Remains, clean: bool) -> None:
    client = client_of(segment_bytes="300")
    put(client, b"plain")
    put(client, b"a", 7)
    put(client, b"b", 8)
    end(client, 8, commit=False)
    for number in range(5):
        put(client, b"%d" % number)
    put(client, b"c", 9)
    partition = client.sim.broker.topics.partition("t", 0)
    stable, end_offset = partition.last_stable_offset, partition.log_end_offset
    client = _restarted(client, clean=clean, remains=remains)
    partition = client.sim.broker.topics.partition("t", 0)
    assert (partition.last_stable_offset, partition.log_end_offset) == (stable, end_offset) == (1, 10)
    end(client, 7)
    client.sim.settle()
    assert partition.last_stable_offset == 9
    end(client, 9)
    client.sim.settle()
    aborted = one(fetch(client, 11, want(), isolation_level=READ_COMMITTED)).aborted_transactions or []
    assert [(transaction.producer_id, transaction.first_offset) for transaction in aborted] == [(8, 2)]


def _restarted(client: SimulatedClient, *, clean: bool = False, remains: Remains = Remains.LOST) -> SimulatedClient:
    sim = client.sim
    sim.settle()
    left = sim.storage
    assert isinstance(left, FaultyStorage)
    if clean:
        sim.stop()
    else:
        left = left.after_cut(remains, random.Random(3))
    again = SimulatedClient(sim=Simulation(sim.settings, storage=left, store=sim.store, clock=sim.clock))
    again.sim.broker.coordinators.transaction_partitions = ScriptedCoordinator(again)  # type: ignore[assignment]
    return again
