"""Records of a batch of magic 2: layout and decoding, after decompression.

    record: length varint | attributes int8 (unused) | timestamp delta varlong
          | offset delta varint | key length varint (-1 null) | key
          | value length varint (-1 null) | value | header count varint
          | headers: key length varint | key (UTF-8) | value length varint (-1 null) | value

Deltas are relative to the batch's base timestamp and base offset. Source: KIP-98, KIP-82.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch_header import BatchHeader
from kqueue.records.varints import read_raw

Headers = tuple[tuple[str, bytes | None], ...]
ABORT = 0
COMMIT = 1
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_CONTROL_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_BASE_MAX = 2**62  # below it a two-byte delta can't overflow 64 bits
_LONG_MAX = 2**63 - 1


class Record(NamedTuple):
    """One record of a log.

    Attributes:
        timestamp: ms since 1970, -1: none.
        key, value: None: null.
        headers: in order, names may repeat. Names that are not UTF-8 have surrogate escapes, so
            encoding them gives the same bytes.
        sequence: -1: the producer is not idempotent.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    sequence: int = -1


def decode_records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield the `header.record_count` records in `data`, one by one.

    Raises: CorruptBatch: a record does not fill its length, a length is negative or exceeds the
        data, offset deltas do not rise or exceed the header's last, bytes are left over, or a
        timestamp exceeds 64 bits.
    """
    records = _decode(data, header)
    if -_BASE_MAX <= header.base_timestamp <= _BASE_MAX:
        return records
    return _check_timestamps(records)


def _decode(data: bytes, header: BatchHeader) -> Iterator[Record]:
    # One loop with short varints decoded inline: a call per field would cost several times as much.
    new, size, pos, delta, delta_max = tuple.__new__, len(data), 0, -1, header.last_offset_delta
    base_offset, base_timestamp, base_sequence, sequence = (
        header.base_offset,
        header.base_timestamp,
        header.base_sequence,
        -1,
    )
    append_time = header.max_timestamp if header.is_log_append_time else None
    headers: Headers
    try:
        for _ in repeat(None, header.record_count):
            raw = data[pos]
            pos += 1
            if raw > 127:
                if (more := data[pos]) < 128:
                    raw = raw & 127 | more << 7
                    pos += 1
                else:
                    raw, pos = read_raw(data, pos - 1, 32)
            end = pos + (raw >> 1)
            if raw & 1 or end > size:
                raise CorruptBatch(f"a record's length leaves the {size} bytes of records at {pos}")

            raw = data[pos + 1]  # skip the unused attributes
            pos += 2
            if raw > 127:
                if (more := data[pos]) < 128:
                    raw = raw & 127 | more << 7
                    pos += 1
                else:
                    raw, pos = read_raw(data, pos - 1, 64)
                    _check_timestamp(base_timestamp + (raw >> 1 ^ -(raw & 1)))
            timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1)) if append_time is None else append_time

            raw = data[pos]
            pos += 1
            if raw > 127:
                raw, pos = read_raw(data, pos - 1, 32)
            if raw & 1 or not delta < raw >> 1 <= delta_max:
                raise CorruptBatch(
                    f"offset deltas have to rise up to {delta_max}: {raw >> 1 ^ -(raw & 1)} follows {delta}"
                )
            delta = raw >> 1

            raw = data[pos]
            pos += 1
            if raw == 1:
                key = None
            else:
                if raw > 127:
                    raw, pos = read_raw(data, pos - 1, 32)
                if raw & 1:
                    raise CorruptBatch(f"a negative key length at {pos} of the records")
                key = data[pos : (pos := pos + (raw >> 1))]

            raw = data[pos]
            pos += 1
            if raw == 1:
                value = None
            else:
                if raw > 127:
                    raw, pos = read_raw(data, pos - 1, 32)
                if raw & 1:
                    raise CorruptBatch(f"a negative value length at {pos} of the records")
                value = data[pos : (pos := pos + (raw >> 1))]

            if data[pos]:
                headers, pos = _decode_headers(data, pos, end)
            else:
                headers = ()
                pos += 1
            if pos != end:
                raise CorruptBatch(f"a record that should end at {end} ends at {pos} of the records")
            if base_sequence >= 0:
                sequence = (base_sequence + delta) & 0x7FFFFFFF
            yield new(Record, (base_offset + delta, timestamp, key, value, headers, sequence))
    except IndexError:
        raise CorruptBatch(
            f"the {size} bytes of records end within a record; the header counts {header.record_count}"
        ) from None
    if pos != size:
        raise CorruptBatch(f"{size - pos} bytes are left over after {header.record_count} records")


def _decode_headers(data: bytes, pos: int, end: int) -> tuple[Headers, int]:
    raw, pos = read_raw(data, pos, 32)
    if raw & 1 or raw > end - pos:  # half of `raw` headers, two bytes each at least
        raise CorruptBatch(f"{raw >> 1 ^ -(raw & 1)} headers can't stand in the {end - pos} bytes left of their record")
    headers: list[tuple[str, bytes | None]] = []
    for _ in repeat(None, raw >> 1):
        raw, pos = read_raw(data, pos, 32)
        if raw & 1:
            raise CorruptBatch(f"a header key without a length at {pos} of the records")
        key = data[pos : (pos := pos + (raw >> 1))].decode("utf-8", "surrogateescape")
        raw, pos = read_raw(data, pos, 32)
        if raw == 1:
            headers.append((key, None))
            continue
        if raw & 1:
            raise CorruptBatch(f"a negative header length at {pos} of the records")
        headers.append((key, data[pos : (pos := pos + (raw >> 1))]))
    return tuple(headers), pos


def _check_timestamp(timestamp: int) -> None:
    if not ~_LONG_MAX <= timestamp <= _LONG_MAX:
        raise CorruptBatch(f"timestamp {timestamp} does not fit in 64 bits")


def _check_timestamps(records: Iterator[Record]) -> Iterator[Record]:
    for record in records:
        _check_timestamp(record.timestamp)
        yield record


def decode_control(record: Record) -> tuple[int, int]:
    """Return (type, version) of a control record.

    Transactions have the types COMMIT = 1 and ABORT = 0; Kafka has more types.
    Raises: CorruptBatch: the key is not that of a control record.
    """
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptBatch(f"a control record's key has {_CONTROL_KEY.size} bytes, found {record.key!r}")
    version, kind = _CONTROL_KEY.unpack_from(record.key)
    return kind, version


def control_key_value(kind: int, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return key and value of the marker that ends a transaction. `kind`: COMMIT or ABORT."""
    return _CONTROL_KEY.pack(0, kind), _CONTROL_VALUE.pack(0, coordinator_epoch)
