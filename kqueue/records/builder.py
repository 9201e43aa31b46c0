"""Builder of batches of magic 2, record by record."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from crc32c import crc32c

from kqueue.base.errors import InvalidRecord
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LENGTH_FIELD_END,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.contract import Buffer
from kqueue.records.record import Headers, Record
from kqueue.records.varints import VARINTS

CREATE_TIME_TYPE = 0
LOG_APPEND_TIME_TYPE = 1
_INT_MAX = 2**31 - 1
_LONG_MIN = -(2**63)
_NO_RECORDS = bytes(BATCH_OVERHEAD)


class BatchBuilder:
    """Builds one batch: `append` records, then `build` once.

    Args:
        codec: name in the registry. level: None: the codec's default.
        timestamp_type: CREATE_TIME_TYPE, or LOG_APPEND_TIME_TYPE: the greatest time is that of
            every record.
        producer_id, epoch, base_sequence: -1: not idempotent.
        base_offset, leader_epoch: of the header; producers leave 0 and -1.
        delete_horizon_ms: set only in compacted batches with tombstones (see
            `BatchHeader.delete_horizon_ms`).
    Raises: PluginError: there is no such codec.
    """

    __slots__ = ("_base_timestamp", "_codec", "_count", "_header", "_level", "_max_timestamp", "_next_delta", "_out")

    def __init__(
        self,
        codec: str = "none",
        level: int | None = None,
        timestamp_type: int = CREATE_TIME_TYPE,
        producer_id: int = -1,
        epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        base_offset: int = 0,
        leader_epoch: int = -1,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._codec = CODECS.get(codec)
        self._level = level
        attributes = self._codec.id | (LOG_APPEND_TIME if timestamp_type == LOG_APPEND_TIME_TYPE else 0)
        attributes |= (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
        attributes |= DELETE_HORIZON if delete_horizon_ms is not None else 0
        self._header = (base_offset, leader_epoch, attributes, producer_id, epoch, base_sequence)
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp: int | None = None
        self._count = self._next_delta = 0
        self._out = bytearray(_NO_RECORDS)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        offset: int | None = None,
    ) -> None:
        """Add a record.

        Args:
            timestamp: ms since 1970, -1: none.
            headers: (name, value or None).
            offset: absolute, above the last record's; None: the next one.
        Raises: InvalidRecord: the offset does not rise, the time exceeds 64 bits, or a header name
            can't be encoded.
        """
        base_timestamp, max_timestamp, delta, varints = (
            self._base_timestamp,
            self._max_timestamp,
            self._next_delta,
            VARINTS,
        )
        if base_timestamp is None:
            base_timestamp = self._base_timestamp = timestamp
        if max_timestamp is None or timestamp > max_timestamp:
            self._max_timestamp = timestamp
        if timestamp < _LONG_MIN:
            raise InvalidRecord(f"timestamp {timestamp} does not fit in 64 bits")
        if offset is not None:
            delta = self._delta_of(offset)
        if key is None:
            key, key_size = b"", -1
        else:
            key_size = len(key)
        if value is None:
            value, value_size = b"", -1
        else:
            value_size = len(value)
        tail = _encode_headers(headers) if headers else b"\0"
        parts = (
            b"\0",
            varints[timestamp - base_timestamp],
            varints[delta],
            varints[key_size],
            key,
            varints[value_size],
            value,
            tail,
        )
        body = b"".join(parts)
        out = self._out
        out += varints[len(body)]
        out += body
        self._next_delta = delta + 1
        self._count += 1

    def append_encoded(self, records: Buffer, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Add `count` encoded records to an empty builder; their offset deltas begin at 0.

        Args: base_timestamp: time of the first record, base of the deltas; max_timestamp: the
            greatest time.
        """
        assert not self._count, "encoded records need an empty builder"
        self._out += records
        self._count = self._next_delta = count
        self._base_timestamp, self._max_timestamp = base_timestamp, max_timestamp

    def _delta_of(self, offset: int) -> int:
        delta = offset - self._header[0]
        if not self._next_delta <= delta <= _INT_MAX:
            raise InvalidRecord(f"offset {offset} can't follow {self._header[0] + self._next_delta - 1} in one batch")
        return delta

    @property
    def count(self) -> int:
        """Number of records appended."""
        return self._count

    @property
    def size_estimate(self) -> int:
        """Bytes of the batch before compression."""
        return len(self._out)

    def build(self, last_offset: int | None = None) -> bytearray:
        """Return the whole batch. The builder can't be used again.

        Args: last_offset: absolute, not below the last record's; None: the last record's. With it
            compaction keeps the offsets of removed records, and the batch may be empty.
        Raises: InvalidRecord: a time exceeds 64 bits.
        """
        assert self._count or last_offset is not None, "a batch needs records, or a last offset"
        base_offset, leader_epoch, attributes, producer_id, epoch, base_sequence = self._header
        last_delta = self._next_delta - 1 if last_offset is None else last_offset - base_offset
        assert max(self._next_delta - 1, 0) <= last_delta <= _INT_MAX, "the last offset is below a record's"
        out, self._out = self._out, bytearray()
        if self._codec.id and self._count:
            with memoryview(out)[BATCH_OVERHEAD:] as records:
                packed = self._codec.compress(records, self._level)
            out[BATCH_OVERHEAD:] = packed
        base_timestamp = -1 if self._base_timestamp is None else self._base_timestamp
        max_timestamp = -1 if self._max_timestamp is None else self._max_timestamp
        fields = (
            base_offset, len(out) - LENGTH_FIELD_END, leader_epoch, 2, 0, attributes, last_delta, base_timestamp,
            max_timestamp, producer_id, epoch, base_sequence, self._count,
        )  # fmt: skip
        _seal(out, fields)
        return out


def _seal(out: bytearray, fields: tuple[int, ...]) -> None:
    try:
        HEADER.pack_into(out, 0, *fields)
    except struct.error as error:
        raise InvalidRecord(f"a batch header can't hold {fields}: {error}") from None
    with memoryview(out)[CRC_START:] as covered:
        crc = crc32c(covered)
    HEADER.pack_into(out, 0, *fields[:4], crc, *fields[5:])


def _encode_headers(headers: Iterable[tuple[str, Buffer | None]]) -> bytes:
    parts: list[Buffer] = []
    count = 0
    for name, value in headers:
        try:
            raw = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"header name {name!r}: {error}") from None
        parts += (VARINTS[len(raw)], raw)
        parts += (VARINTS[-1],) if value is None else (VARINTS[len(value)], value)
        count += 1
    return VARINTS[count] + b"".join(parts)


def build_batch(records: Iterable[Record], **settings: Any) -> bytearray:
    """Return one batch with these records and their offsets.

    Args: settings: arguments of `BatchBuilder`; `base_offset` defaults to the first record's
    offset.
    Raises: as `BatchBuilder.append`.
    """
    records = list(records)
    if records:
        settings.setdefault("base_offset", records[0].offset)
    builder = BatchBuilder(**settings)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, record.offset)
    return builder.build()


__all__ = ["CREATE_TIME_TYPE", "LOG_APPEND_TIME_TYPE", "BatchBuilder", "Headers", "build_batch"]
