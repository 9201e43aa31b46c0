"""Batches and message sets against the record code of two stock clients, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AioLegacyBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaLegacyBuilder
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from kqueue.records.any_format import iter_any_batches, iter_any_records
from kqueue.records.batch import check_crc, iter_records, read_header, set_log_append_time, stamp
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import build_batch
from kqueue.records.message_set import check_entry, encode_set
from kqueue.records.record import Record
from kqueue.tests.records.conversions import down_convert, up_convert
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.records.validation import validate_batch
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

BUILDERS = for_each("builder", [KafkaBuilder, AioBuilder])
LEGACY_BUILDERS = for_each("builder", [KafkaLegacyBuilder, AioLegacyBuilder])
READERS = for_each("reader", [KafkaRecords, AioRecords])
CODECS = for_each("codec", CODEC_NAMES)
BIG = 2**62

RECORDS = [
    Record(0, 1_600_000_000_000, b"key", b"value " * 200, (("h", b"x"), ("h", b""), ("é", None))),
    Record(1, 1_600_000_000_000 + 2**40, None, b"value " * 200),
    Record(2, 0, b"", b""),
    Record(3, BIG, b"key " * 5000, None),
    *(Record(offset, 1_600_000_000_000 - offset, b"%d" % offset, b"x" * offset) for offset in range(4, 200)),
]


def theirs_built(builder: Any, codec_id: int, records: Iterable[Record], **fields: Any) -> bytes:
    settings = {
        "is_transactional": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "batch_size": 2**30,
    } | fields
    batch = builder(magic=2, compression_type=codec_id, **settings)
    for record in records:
        assert batch.append(record.offset, record.timestamp, record.key, record.value, list(record.headers)) is not None
    return bytes(batch.build())


def theirs_read(reader: Any, data: bytes) -> list[Record]:
    records, batches_read = [], reader(data)
    while batches_read.has_next():
        batch = batches_read.next_batch()
        assert batch.validate_crc()
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp
            records.append(Record(record.offset, timestamp, record.key, record.value, tuple(record.headers or ())))
    return records


@BUILDERS
@CODECS
def test_we_read_their_batches(builder: Any, codec: str) -> None:
    codec_id = CODEC_NAMES.index(codec)
    batch = bytearray(theirs_built(builder, codec_id, RECORDS))
    assert read_header(batch).codec_id == codec_id
    header = validate_batch(
        memoryview(batch), ValidationRules(ValidationLevel.FULL, after_max_ms=BIG), now_ms=1_600_000_000_000
    )
    assert header == read_header(batch)
    assert list(iter_records(batch)) == RECORDS


@BUILDERS
def test_we_read_their_producer_fields(builder: Any) -> None:
    batch = theirs_built(
        builder, 1, RECORDS, is_transactional=1, producer_id=2**40, producer_epoch=7, base_sequence=2**31 - 1
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (
        2**40,
        7,
        2**31 - 1,
        True,
    )
    assert [record.sequence for record in iter_records(batch)][:2] == [2**31 - 1, 0]


@READERS
@CODECS
def test_clients_read_our_batches(reader: Any, codec: str) -> None:
    log = build_batch(RECORDS, codec=codec) + build_batch(RECORDS[4:], codec=codec)
    assert theirs_read(reader, bytes(log)) == RECORDS + RECORDS[4:]


@READERS
@CODECS
def test_clients_read_stamped_batches(reader: Any, codec: str) -> None:
    batch = build_batch(RECORDS, codec=codec)
    stamp(batch, 0, 1000, 5)
    set_log_append_time(batch, 0, 99_999)
    assert theirs_read(reader, bytes(batch)) == [
        record._replace(offset=1000 + record.offset, timestamp=99_999) for record in RECORDS
    ]


@READERS
@CODECS
@settings(max_examples=examples(10), deadline=None)
@given(records=record_lists(gaps=True))
def test_clients_read_any_batch_of_ours(reader: Any, codec: str, records: list[Record]) -> None:
    # a time of 64 bits less its base is beyond what aiokafka's C code can hold
    records = [record._replace(timestamp=record.timestamp % 2**62) for record in records]
    assert theirs_read(reader, bytes(build_batch(records, codec=codec))) == records


@BUILDERS
@CODECS
@settings(max_examples=examples(10), deadline=None)
@given(records=record_lists())
def test_we_read_any_batch_of_theirs(builder: Any, codec: str, records: list[Record]) -> None:
    records = [
        record._replace(offset=offset, timestamp=record.timestamp % 2**62) for offset, record in enumerate(records)
    ]
    batch = theirs_built(builder, CODEC_NAMES.index(codec), records)
    check_crc(batch, 0, read_header(batch))
    assert list(iter_records(batch)) == records


# --- the old formats: kafka-python needs a package more for the lz4 of magic 0, which Kafka's own
# data covers


OLD = [(magic, codec_id) for magic in (0, 1) for codec_id in range(4)]
PLAIN = [record._replace(headers=()) for record in RECORDS]


def timed(records: list[Record], magic: int) -> list[Record]:
    return records if magic else [record._replace(timestamp=-1) for record in records]


@LEGACY_BUILDERS
@for_each("magic, codec_id", [pair for pair in OLD if pair != (0, 3)])
def test_we_read_their_message_sets(builder: Any, magic: int, codec_id: int) -> None:
    theirs = builder(magic=magic, compression_type=codec_id, batch_size=2**30)
    for record in PLAIN:
        theirs.append(record.offset, record.timestamp, record.key, record.value)
    data = bytes(theirs.build())
    for _, entry in iter_any_batches(data):
        check_entry(data, entry)
    if codec_id == 0:
        assert list(iter_any_records(data)) == timed(PLAIN, magic)
    batches = up_convert(data)
    assert [record for batch in batches for record in iter_records(batch)] == timed(PLAIN, magic)
    assert {read_header(batch).codec_id for batch in batches} == {codec_id}


@READERS
@for_each("magic, codec_id", [pair for pair in OLD if pair != (0, 3)])
def test_clients_read_our_message_sets(reader: Any, magic: int, codec_id: int) -> None:
    shifted = [record._replace(offset=record.offset * 3 + 100) for record in PLAIN]
    assert theirs_read(reader, encode_set(shifted, magic, codec_id)) == timed(shifted, magic)
    assert theirs_read(reader, down_convert(build_batch(shifted, codec=CODEC_NAMES[codec_id]), magic)) == timed(
        shifted, magic
    )
