from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    HEADER,
    BatchHeader,
    read_header,
)
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, build_batch
from kqueue.records.record import Record
from kqueue.tests.records.strategies import CODEC_NAMES
from kqueue.tests.tables import for_each

RECORDS = [
    Record(5 + number, 1000 + number, b"key %d" % number, b"value " * number, (("h", b"x"), ("n", None)))
    for number in range(4)
]
CRC_START = 21


def changed(batch: bytes | bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, and its checksum as it was."""
    header = read_header(batch)._replace(**fields)
    return bytearray(HEADER.pack(*header) + batch[BATCH_OVERHEAD:])


def test_header_has_every_field_of_the_batch() -> None:
    batch = build_batch(RECORDS, producer_id=9, epoch=2, base_sequence=2**31 - 2, transactional=True, leader_epoch=3)
    header = read_header(b"..." + batch, 3)
    assert header == BatchHeader(5, len(batch) - 12, 3, 2, header.crc, 0x10, 3, 1000, 1003, 9, 2, 2**31 - 2, 4)
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (len(batch), 8, 9, 1)
    assert header.is_transactional
    assert header.has_producer
    assert not header.is_control
    assert not header.is_log_append_time
    assert header.delete_horizon_ms is None


@for_each("name", CODEC_NAMES)
def test_codec_id_follows_the_name(name: str) -> None:
    assert read_header(build_batch(RECORDS, codec=name)).codec_id == CODEC_NAMES.index(name)


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = read_header(build_batch(RECORDS, control=True, timestamp_type=LOG_APPEND_TIME_TYPE))
    assert header.last_sequence == -1
    assert not header.has_producer
    assert header.is_control
    assert header.is_log_append_time


@for_each(
    "fields, words",
    [
        ({"magic": 1}, "magic"),
        ({"magic": 3}, "magic"),
        ({"batch_length": 48}, "length"),
        ({"batch_length": -1}, "length"),
        ({"record_count": -1}, "-1 records"),
        ({"record_count": 5}, "5 records"),
        ({"last_offset_delta": -1, "record_count": 0}, "delta of -1"),
    ],
)
def test_headers_that_can_not_be(fields: dict[str, int], words: str) -> None:
    with pytest.raises(CorruptBatch, match=words):
        read_header(changed(build_batch(RECORDS), **fields))


def test_a_header_that_is_cut_off() -> None:
    batch = build_batch(RECORDS)
    for end in range(BATCH_OVERHEAD):
        with pytest.raises(CorruptBatch, match="61 bytes"):
            read_header(batch[:end])
    assert read_header(batch[:BATCH_OVERHEAD]).size == len(batch)
