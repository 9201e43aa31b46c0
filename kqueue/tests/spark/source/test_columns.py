from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kqueue.client.topic_partition import TopicPartition
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.spark.source.columns import arrow_schema, record_batch
from kqueue.tests.spark.source.logs import BEGIN_MS
from kqueue.tests.tables import for_each

PLACE = TopicPartition("t", 3)


def rows(data: bytes, *, headers: bool = False) -> list[dict[str, Any]]:
    decoder = ColumnDecoder(engine="python")
    pieces = [*decoder.feed(data, tag=PLACE), *decoder.finish()]
    schema = arrow_schema(headers=headers)
    result = [record_batch(piece, schema) for piece in pieces]
    assert all(candidate.schema.equals(schema) for candidate in result), "Spark compares the first one's"
    return [row for candidate in result for row in candidate.to_pylist()]


def test_record_is_read_with_all_its_columns() -> None:
    builder = BatchBuilder("snappy", base_offset=7)
    builder.append(BEGIN_MS + 1, b"k", b"v", [("h", b"1"), ("h", None)])
    builder.append(BEGIN_MS + 2, None, None)
    first, second = rows(bytes(builder.build()), headers=True)
    assert first == {
        "key": b"k", "value": b"v", "topic": "t", "partition": 3, "offset": 7, "timestampType": 0,
        "timestamp": datetime.fromtimestamp(BEGIN_MS // 1_000, UTC).replace(microsecond=1_000),
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }  # fmt: skip
    assert (second["key"], second["value"], second["offset"], second["headers"]) == (None, None, 8, [])


def test_timestamp_type_says_who_set_the_time() -> None:
    builder = BatchBuilder("none", timestamp_type=LOG_APPEND_TIME_TYPE)
    builder.append(BEGIN_MS, None, b"v")
    assert [row["timestampType"] for row in rows(bytes(builder.build()))] == [1]
    old = encode_set([Record(0, -1, b"k", b"v", ())], 0)
    assert [(row["timestampType"], row["timestamp"]) for row in rows(old)] == [(-1, None)]


def test_each_row_has_what_its_own_batch_says() -> None:
    decoder = ColumnDecoder(engine="python")
    pieces = []
    for number, (topic_partition, kind) in enumerate(
        [(PLACE, 0), (PLACE, 0), (PLACE, 1), (TopicPartition("u", 0), 1), (PLACE, 0)]
    ):
        builder = BatchBuilder("none", timestamp_type=kind, base_offset=number)
        for _ in range(number + 1):
            builder.append(BEGIN_MS, None, b"v")
        pieces += decoder.feed(bytes(builder.build()), tag=topic_partition)
    pieces += decoder.finish()
    result = [row for piece in pieces for row in record_batch(piece, arrow_schema(headers=False)).to_pylist()]
    kinds = [(row["topic"], row["partition"], row["timestampType"]) for row in result]
    assert kinds == [("t", 3, 0)] * 3 + [("t", 3, 1)] * 3 + [("u", 0, 1)] * 4 + [("t", 3, 0)] * 5


@for_each("time", [2**62, (2**63 - 1) // 1_000 + 1])
def test_times_beyond_what_spark_has_are_null(time: int) -> None:
    builder = BatchBuilder("none")
    builder.append(BEGIN_MS, None, b"a")
    builder.append(time, None, b"b")
    assert [row["timestamp"] is None for row in rows(bytes(builder.build()))] == [False, True]
