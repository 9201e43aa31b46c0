"""Fetch requests and their answers, for tests."""

from __future__ import annotations

from typing import Any

from kqueue.records.any_format import iter_any_records
from kqueue.records.batch import ABORT, COMMIT, control_key_value, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)


def want(index: int = 0, offset: int = 0, size: int = 1 << 20, **fields: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size, **fields)


def request(
    client: SimulatedClient, version: int, *requested: FetchPartition, topic: str = "t", **fields: Any
) -> FetchRequest:
    topics = [_named(client, FetchTopic(partitions=list(requested)), topic, version)] if requested else []
    forget = fields.pop("forget", ())
    forgotten = [_named(client, ForgottenTopic(partitions=list(forget)), topic, version)] if forget else []
    defaults: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1}
    return FetchRequest(topics=topics, forgotten_topics_data=forgotten, **{**defaults, **fields})


def _named(client: SimulatedClient, data: Any, topic: str, version: int) -> Any:
    if version >= 13:
        existing = client.sim.broker.topics.find(topic)
        data.topic_id = existing.id if existing is not None else b"\x07" * 16
    else:
        data.topic = topic
    return data


def fetch(client: SimulatedClient, version: int, *requested: FetchPartition, **fields: Any) -> FetchResponse:
    response: FetchResponse = client.ask(request(client, version, *requested, **fields), version)
    return response


def parts(response: FetchResponse) -> list[PartitionData]:
    return [data for topic in response.responses for data in topic.partitions]


def one(response: FetchResponse) -> PartitionData:
    (data,) = parts(response)
    return data


def values(data: PartitionData) -> list[bytes | None]:
    return [record.value for record in iter_any_records(bytes(data.records or b""))]


def transaction(value: bytes, producer: int, sequence: int = 0) -> bytes:
    return batch(value, producer_id=producer, epoch=0, base_sequence=sequence, transactional=True)


def append(client: SimulatedClient, raw: bytes) -> None:
    buf = memoryview(bytearray(raw))
    client.sim.broker.topics.partition("t", 0).append(buf, read_header(buf), client=False)


def end_transaction(client: SimulatedClient, producer: int, *, commits: bool) -> None:
    builder = BatchBuilder(producer_id=producer, epoch=0, transactional=True, control=True)
    builder.append(1, *control_key_value(COMMIT if commits else ABORT, 0))
    append(client, bytes(builder.build()))
