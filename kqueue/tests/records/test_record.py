from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, BatchHeader, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import ABORT, COMMIT, Record, control_key_value, decode_control, decode_records
from kqueue.records.varints import encode
from kqueue.tests.tables import for_each

BASE = 1_600_000_000_000


def header(
    count: int = 1,
    last_delta: int | None = None,
    *,
    base_timestamp: int = BASE,
    attributes: int = 0,
    base_sequence: int = -1,
) -> BatchHeader:
    last_delta = count - 1 if last_delta is None else last_delta
    return BatchHeader(100, 49, 0, 2, 0, attributes, last_delta, base_timestamp, BASE + 9, -1, -1, base_sequence, count)


def raw_record(
    *,
    time: int = 0,
    delta: int = 0,
    key: bytes = encode(1) + b"k",
    value: bytes = encode(1) + b"v",
    headers: bytes = b"\0",
    length_error: int = 0,
    tail: bytes = b"",
) -> bytes:
    body = b"\0" + encode(time) + encode(delta) + key + value + headers + tail
    return encode(len(body) + length_error) + body


def decode(data: bytes, about: BatchHeader | None = None) -> list[Record]:
    return list(decode_records(data, about or header()))


def test_fields_of_a_record() -> None:
    headers = encode(2) + encode(1) + b"a" + encode(2) + b"xy" + encode(2) + "é".encode() + encode(-1)
    data = raw_record(time=-5, headers=headers) + raw_record(delta=3, key=encode(-1), value=encode(0))
    assert decode(data, header(2, 3)) == [
        Record(100, BASE - 5, b"k", b"v", (("a", b"xy"), ("é", None)), -1),
        Record(103, BASE, None, b"", (), -1),
    ]


def test_log_append_time_is_the_time_of_all() -> None:
    data = raw_record(time=1) + raw_record(time=2, delta=1)
    assert [record.timestamp for record in decode(data, header(2, attributes=0x08))] == [BASE + 9, BASE + 9]


def test_sequences_wrap_to_0() -> None:
    data = b"".join(raw_record(delta=delta) for delta in range(3))
    assert [record.sequence for record in decode(data, header(3, base_sequence=2**31 - 2))] == [2**31 - 2, 2**31 - 1, 0]


def test_a_header_key_that_is_no_utf8_can_be_written_again() -> None:
    data = raw_record(headers=encode(1) + encode(2) + b"\xff\xfe" + encode(-1))
    (record,) = decode(data)
    builder = BatchBuilder()
    builder.append(BASE, record.key, record.value, record.headers)
    assert bytes(builder.build()[BATCH_OVERHEAD:]) == data


WRONG = {
    "nothing": b"",
    "a length below 0": encode(-1),
    "a length beyond the data": raw_record(length_error=1),
    "a length that ends too early": raw_record(length_error=-1),
    "bytes left over in the record": raw_record(tail=b"\0"),
    "bytes left over after the records": raw_record() + b"\0",
    "a second record that is not counted": raw_record() + raw_record(delta=1),
    "an offset delta below 0": raw_record(delta=-1),
    "an offset delta above the last": raw_record(delta=1),
    "a key length below -1": raw_record(key=encode(-2)),
    "a value length below -1": raw_record(value=encode(-2)),
    "a key longer than the data": raw_record(key=encode(2**31 - 1)),
    "a value longer than the record": raw_record(value=encode(3) + b"v"),
    "a varint of six bytes": b"\xff\xff\xff\xff\xff\x01",
    "headers below 0": raw_record(headers=encode(-1)),
    "more headers than bytes": raw_record(headers=encode(2**30)),
    "a header without a key": raw_record(headers=encode(1) + encode(-1) + encode(-1)),
    "a header value below -1": raw_record(headers=encode(1) + encode(0) + encode(-2)),
    "a header beyond the record": raw_record(headers=encode(1) + encode(9)),
    "fewer headers than counted": raw_record(headers=encode(2) + encode(0) + encode(-1)),
}


@for_each("data", WRONG.values())
def test_corrupt_record_is_refused(data: bytes) -> None:
    assert decode(raw_record()), "the plain record must be right, or this test shows nothing"
    with pytest.raises(CorruptBatch):
        decode(data)


def test_offset_deltas_have_to_rise() -> None:
    with pytest.raises(CorruptBatch, match="0 follows 0"):
        decode(raw_record() + raw_record(), header(2))


@for_each("base, time", [(2**63 - 1, 1), (-(2**63), -1), (BASE, 2**63 - 1), (2**62 + 5, 2**62), (-5, -(2**63))])
def test_a_time_beyond_64_bits_is_corrupt(base: int, time: int) -> None:
    with pytest.raises(CorruptBatch, match="64 bits"):
        decode(raw_record(time=time), header(base_timestamp=base))


def test_times_at_the_edge_of_64_bits_are_read() -> None:
    assert decode(raw_record(time=-1), header(base_timestamp=2**63 - 1))[0].timestamp == 2**63 - 2


@given(st.binary(max_size=80), st.integers(0, 5))
def test_noise_raises_nothing_but_corrupt_batch(data: bytes, count: int) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decode(data, header(count, 10))) == count


def test_control_record_encodes_its_kind() -> None:
    for kind in (COMMIT, ABORT):
        key, value = control_key_value(kind, 7)
        assert decode_control(Record(0, BASE, key, value)) == (kind, 0)
    assert control_key_value(COMMIT, 7) == (bytes.fromhex("00000001"), bytes.fromhex("000000000007"))


@for_each("key", [None, b"", b"\0\0\0"])
def test_a_control_record_needs_its_key(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="control"):
        decode_control(Record(0, BASE, key, b""))


def test_the_header_of_this_test_is_a_header() -> None:
    about = header(2, 3, base_sequence=4)
    assert read_header(HEADER.pack(*about)) == about
