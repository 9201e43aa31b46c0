"""Record batches of magic 2: the header, where batches begin and end, the checksum, and what a
broker changes in place.

    batch: base offset int64 | length int32 (of what follows it) | leader epoch int32 | magic int8 = 2 | CRC-32C uint32
         | attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64
         | producer id int64 | producer epoch int16 | base sequence int32 | record count int32 | records

The checksum covers all from the attributes on, so base offset and leader epoch can be stamped
without touching it. Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 the
base timestamp is a delete horizon. Only the records are compressed. Compaction takes records out of
a batch, down to none, and leaves its offsets. Source: KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.records.codecs import CODECS, Buffer
from kqueue.records.record import ABORT, COMMIT, Headers, Record, control_key_value, decode_control, decode_records

__all__ = [
    "ABORT", "BATCH_OVERHEAD", "COMMIT", "DECOMPRESSED_BYTES_MAX", "HEADER", "MAGIC_POSITION", "BatchHeader", "Headers", "Record",
    "check_crc", "control_key_value", "decode_control", "iter_batches", "iter_records", "read_header", "set_log_append_time",
    "set_max_timestamp", "set_producer", "stamp", "stated_size",
]  # fmt: skip

HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_OVERHEAD = HEADER.size  # 61
LENGTH_FIELD_END = 12  # the length counts from here
MAGIC_POSITION = 16  # the same in every format
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024  # default bound for what one batch may decompress to

_LENGTH_MIN = BATCH_OVERHEAD - LENGTH_FIELD_END
_BASE_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
CRC_START = 21
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43


class BatchHeader(NamedTuple):
    """The header's fields as they stand; times in ms, -1 = none; producer id, epoch and sequence -1
    = not idempotent.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_FIELD_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """All records have `max_timestamp` as their time."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Its records are markers of the broker's, which no client is shown."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones of this batch; None until it has first seen them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; it wraps to 0 after 2**31 - 1. -1 where there is none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`; the batch itself may be cut off behind it.

    Raises: CorruptBatch: fewer than 61 bytes, a magic other than 2, a length below the header's, a
    negative count or delta, more records than offsets.
    """
    if len(buf) - pos < BATCH_OVERHEAD:
        raise CorruptBatch(
            f"a batch header has {BATCH_OVERHEAD} bytes, found {max(len(buf) - pos, 0)} at position {pos}"
        )
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, pos))
    if header.magic != 2:
        raise CorruptBatch(f"expected a batch of magic 2, found {header.magic} at position {pos}")
    if header.batch_length < _LENGTH_MIN:
        raise CorruptBatch(f"a batch's length is {_LENGTH_MIN} at least, found {header.batch_length} at position {pos}")
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise CorruptBatch(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta} at position {pos}"
        )
    return header


def stated_size(buf: Buffer, pos: int) -> int:
    """Bytes of what begins at `pos`, of any magic, as its length field says: any number of 32 bits,
    nothing is checked.
    """
    length: int = _LENGTH.unpack_from(buf, pos + _LENGTH_POSITION)[0]
    return length + LENGTH_FIELD_END


def iter_batches(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in `buf[pos:end]`, in order; stops where the last one
    is cut off.

    Raises: CorruptBatch: as `read_header`. Checksums are not looked at.
    """
    end = len(buf) if end is None else end
    while end - pos >= BATCH_OVERHEAD:
        header = read_header(buf, pos)
        size = header.batch_length + LENGTH_FIELD_END
        if size > end - pos:
            return
        yield pos, header
        pos += size


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Compare the batch's checksum with its bytes. Raises CorruptBatch: they differ, or the batch
    is cut off.
    """
    end = pos + header.batch_length + LENGTH_FIELD_END
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes is cut off after {len(buf) - pos} at position {pos}")
    found = crc32c(memoryview(buf)[pos + CRC_START : end])
    if found != header.crc:
        raise CorruptBatch(
            f"checksum {header.crc:#010x} stands in the batch at position {pos}, but its bytes give {found:#010x}"
        )


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch in place; the checksum does not cover them."""
    _BASE_OFFSET.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, time_ms: int) -> None:
    """Give all records of the batch this time, of the LogAppendTime kind, in place; the checksum is
    made anew.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    set_max_timestamp(buf, pos, time_ms)


def set_max_timestamp(buf: bytearray | memoryview, pos: int, time_ms: int) -> None:
    """Write the header's max timestamp in place; the checksum is made anew."""
    _MAX_TIMESTAMP.pack_into(buf, pos + _MAX_TIMESTAMP_POSITION, time_ms)
    with memoryview(buf)[pos + CRC_START : pos + stated_size(buf, pos)] as covered:
        _CRC.pack_into(buf, pos + _CRC_POSITION, crc32c(covered))


def set_producer(buf: bytearray | memoryview, pos: int, producer_id: int, epoch: int, base_sequence: int) -> None:
    """Make it the batch of another producer, or of none (-1), in place; the checksum is made anew."""
    _PRODUCER.pack_into(buf, pos + _PRODUCER_POSITION, producer_id, epoch, base_sequence)
    with memoryview(buf)[pos + CRC_START : pos + stated_size(buf, pos)] as covered:
        _CRC.pack_into(buf, pos + _CRC_POSITION, crc32c(covered))


def iter_records(buf: Buffer, pos: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at `pos`, in order; keys and values are copies.

    Args: limit_bytes: what the records may decompress to; no more than about that is ever
    allocated. Raises: CorruptBatch: anything that does not follow the format, as soon as it is met:
    the records before it may have been yielded; the checksum is `check_crc`'s. UnsupportedCodec:
    nobody has registered the codec. PluginError: a plugin's failed.
    """
    header = read_header(buf, pos)
    return decode_records(decompressed(buf, pos, header, limit_bytes), header)


def decompressed(buf: Buffer, pos: int, header: BatchHeader, limit_bytes: int) -> bytes:
    """The bytes of the batch's records, of at most `limit_bytes`. Raises: as `iter_records`."""
    end = pos + header.batch_length + LENGTH_FIELD_END
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes is cut off after {len(buf) - pos} at position {pos}")
    with memoryview(buf)[pos + BATCH_OVERHEAD : end] as payload:
        codec_id = header.attributes & CODEC_MASK
        if codec_id == 0 or header.record_count == 0:  # a batch that compaction has emptied keeps its codec
            return bytes(payload)
        codec = CODECS.by_id(codec_id)
        if codec is None:
            raise UnsupportedCodec(f"no codec has the id {codec_id}, which the batch at position {pos} names")
        return codec.decompress(payload, limit_bytes)
