"""Header of a record batch of magic 2: layout, fields, decoding.

    batch: base offset int64 | length int32 (of what follows it) | leader epoch int32
         | magic int8 = 2 | CRC-32C uint32 | attributes int16 | last offset delta int32
         | base timestamp int64 | max timestamp int64 | producer id int64 | producer epoch int16
         | base sequence int32 | record count int32 | records

Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 the base timestamp is a
delete horizon. Source: KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import Buffer

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
BATCH_OVERHEAD: Final = HEADER.size  # 61
LENGTH_FIELD_END: Final = 12  # the length counts the bytes after this position
MAGIC_POSITION: Final = 16  # the same in every format
CRC_START: Final = 21
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_LENGTH_MIN = BATCH_OVERHEAD - LENGTH_FIELD_END


class BatchHeader(NamedTuple):
    """Fields of the header. Times in ms, -1: none. Producer id, epoch and sequence are -1 for a
    producer that is not idempotent.
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
        """Offset of the last record, also of one that compaction removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """Id of the compression codec, 0: none."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the time of every record is `max_timestamp`."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are the broker's markers, which clients do not see."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which compaction may drop the batch's tombstones; None: not compacted yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1: none. It wraps to 0 after 2**31 - 1."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header of the batch at `pos`; the batch itself may be incomplete.

    Raises: CorruptBatch: fewer than 61 bytes, a magic other than 2, a length below the header's, a
        negative count or delta, or more records than offsets.
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
