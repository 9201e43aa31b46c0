"""Validation of produced batches: rules of a topic, and checks of a batch's header.

`record_count_check` and `record_validation` check the records behind the header.
Source: Kafka's LogValidator.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, RecordTooLarge, UnsupportedCodec
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON,
    HEADER,
    LENGTH_FIELD_END,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    BatchHeader,
)
from kqueue.records.codecs import CODECS
from kqueue.records.record_count_check import check_compressed, check_record_lengths

ZSTD_ID: Final = 4
PRODUCE_VERSION_ZSTD = 7
PRODUCE_VERSION_NEWEST = 13
_LONG_MAX = 2**63 - 1
_KAFKA_CODEC_MAX = 4
_BROKER_FLAGS: Final = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON


class ValidationLevel(enum.Enum):
    """The depth to which a produced batch is checked; values of `kqueue.records.validation`.

    HEADER: lengths, counts, flags and checksum. QUICK: also that the bytes hold as many records as
    the header counts (`record_count_check`). FULL: each record, as Kafka does.
    """

    HEADER = "header"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """Rules of one topic configuration for produced batches. Build them once per configuration.

    Attributes:
        keys_required: records without a key are refused (compacted topics).
        log_append_time: the broker sets the times, so the bounds on times do not apply.
        before_max_ms, after_max_ms: bounds on a record's age and lead; 2**63 - 1: no bound.
        limit_bytes: most bytes that a batch may decompress to.
        every_record: every record must be read. It follows from the other rules: a compacted topic
            must check keys, and a bound on the past must find the oldest record, at any level.
        quick: `record_count_check` runs.
    """

    level: ValidationLevel = ValidationLevel.HEADER
    max_batch_bytes: int = 1_048_588
    keys_required: bool = False
    log_append_time: bool = False
    before_max_ms: int = _LONG_MAX
    after_max_ms: int = 3_600_000
    limit_bytes: int = DECOMPRESSED_BYTES_MAX
    every_record: bool = field(init=False)
    quick: bool = field(init=False)

    def __post_init__(self) -> None:
        bounded = self.before_max_ms < _LONG_MAX and not self.log_append_time
        every_record = self.level is ValidationLevel.FULL or self.keys_required or bounded
        object.__setattr__(self, "every_record", every_record)
        object.__setattr__(self, "quick", self.level is ValidationLevel.QUICK and not every_record)


def validate_header(
    buf: memoryview, rules: ValidationRules, produce_version: int = PRODUCE_VERSION_NEWEST
) -> BatchHeader:
    """Check that `buf` is exactly one batch of magic 2 that a client may send, and its checksum.

    At level QUICK it also checks the number of records.
    Returns: its header.
    Raises:
        CorruptBatch: the batch is incomplete or has a wrong checksum.
        InvalidRecord: not exactly one batch, another magic, contradicting counts, flags that only a
            broker may set, or another number of records than the header counts.
        RecordTooLarge: above `rules.max_batch_bytes`.
        UnsupportedCodec: unknown, or zstd before Produce 7.
        InvalidTimestamp: the client set LogAppendTime.
    """
    size = len(buf)
    if size <= MAGIC_POSITION:
        raise InvalidRecord(f"expected one record batch, found {size} bytes")
    if buf[MAGIC_POSITION] != 2:
        raise InvalidRecord(f"expected a record batch of magic 2, found magic {buf[MAGIC_POSITION]}")
    if size < BATCH_OVERHEAD:
        raise CorruptBatch(f"a batch header has {BATCH_OVERHEAD} bytes, found {size}")
    # Every Produce runs this code: the header is unpacked in place, with few calls.
    fields = HEADER.unpack_from(buf)
    base_offset, length, _, _, crc, attributes, last_delta, _, _, producer_id, _, base_sequence, count = fields
    if length + LENGTH_FIELD_END != size:
        raise _wrong_size(length + LENGTH_FIELD_END, size)
    if size > rules.max_batch_bytes:
        raise RecordTooLarge(f"a batch of {size} bytes, where max.message.bytes is {rules.max_batch_bytes}")
    if count < 1 or last_delta != count - 1:
        raise InvalidRecord(f"a batch of {count} records with a last offset delta of {last_delta}")
    if base_offset != 0:
        raise InvalidRecord(f"a producer's batch has the base offset 0, found {base_offset}")
    if attributes & _BROKER_FLAGS:
        raise _broker_flag_error(attributes)
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecord(f"sequence {base_sequence} in a batch of producer {producer_id}")
    codec_id = attributes & CODEC_MASK
    if codec_id >= ZSTD_ID:
        _check_codec(codec_id, produce_version)
    if crc32c(buf[CRC_START:]) != crc:
        raise CorruptBatch(
            f"the batch has the checksum {crc:#010x}, but its bytes give {crc32c(buf[CRC_START:]):#010x}"
        )
    header: BatchHeader = tuple.__new__(BatchHeader, fields)
    if rules.quick:
        if codec_id:
            check_compressed(buf, codec_id, count, rules.limit_bytes)
        else:
            check_record_lengths(buf, BATCH_OVERHEAD, size, count)
    return header


def needs_record_validation(header: BatchHeader, rules: ValidationRules, now_ms: int) -> bool:
    """Return whether every record of the batch must be read.

    The rules require it, the header's times are not those of a producer that sets them, or the
    times exceed the topic's bound.
    """
    return rules.every_record or (
        not 0 <= header.base_timestamp <= header.max_timestamp <= now_ms + rules.after_max_ms
        and not rules.log_append_time
    )


def _wrong_size(batch_size: int, size: int) -> CorruptBatch | InvalidRecord:
    if batch_size < BATCH_OVERHEAD:
        return CorruptBatch(f"a batch has {BATCH_OVERHEAD} bytes at least, its length says {batch_size}")
    if batch_size > size:
        return CorruptBatch(f"a batch of {batch_size} bytes is cut off after {size}")
    return InvalidRecord(f"expected exactly one record batch, found {size - batch_size} bytes after the first")


def _broker_flag_error(attributes: int) -> InvalidRecord | InvalidTimestamp:
    if attributes & CONTROL:
        return InvalidRecord("a client may not write control records")
    if attributes & LOG_APPEND_TIME:
        return InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")
    return InvalidRecord("a producer may not set a delete horizon")


def _check_codec(codec_id: int, produce_version: int) -> None:
    if codec_id == ZSTD_ID and produce_version < PRODUCE_VERSION_ZSTD:
        raise UnsupportedCodec(f"zstd needs Produce {PRODUCE_VERSION_ZSTD} or above, this is {produce_version}")
    if codec_id > _KAFKA_CODEC_MAX and CODECS.by_id(codec_id) is None:
        raise UnsupportedCodec(f"no codec has the id {codec_id}")


def unreadable(error: CorruptBatch) -> InvalidRecord:
    """Return the error for records that can't be decoded.

    The checksum was right, so the producer would send the same bytes again: the error must not be
    one that clients retry.
    """
    return InvalidRecord(f"the records of the batch can't be read: {error}")
