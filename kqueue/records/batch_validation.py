"""Checks of what producers send, before it reaches a log."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

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
    decompressed,
)
from kqueue.records.codecs import CODECS
from kqueue.records.record import decode_records
from kqueue.records.record_count_check import check_compressed, check_record_lengths
from kqueue.records.record_validation import RecordValidator

ZSTD_ID = 4
PRODUCE_VERSION_ZSTD = 7
PRODUCE_VERSION_NEWEST = 13
_LONG_MAX = 2**63 - 1
_KAFKAS_CODECS_MAX = 4
_FORBIDDEN = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON


class ValidationLevel(enum.Enum):
    """What is checked of a produced batch. `HEADER`: lengths, counts, flags and checksum; `QUICK`:
    that the records look as the header says (see `structure`); `FULL`: each record, as Kafka does.
    """

    HEADER = "header"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What a topic asks of a batch; made once for each topic configuration.

    Times in ms; the bounds hold for CreateTime topics, `*_max_ms` of 2**63 - 1 = no bound.
    `every_record` follows from the others: a compacted topic needs its keys looked at, and a bound
    on the past the oldest record, whatever the level says. `quick`: what `structure` checks is to
    be done.
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


def check_produced(
    buf: memoryview, rules: ValidationRules, *, now_ms: int, produce_version: int = PRODUCE_VERSION_NEWEST
) -> BatchHeader:
    """Check what a client sent for one partition (Produce 3 and above): exactly one batch of magic
    2.

    Where every record is read (see `needs_record_validation`), a max timestamp that is not the records'
    greatest is replaced in place, as in Kafka; `buf` must be writable then. Returns: the header of
    the batch, which is all of `buf`. Raises: what `validate_header` and `validate_records` raise.
    """
    header = validate_header(buf, rules, produce_version)
    return validate_records(buf, header, rules, now_ms) if needs_record_validation(header, rules, now_ms) else header


def validate_header(
    buf: memoryview, rules: ValidationRules, produce_version: int = PRODUCE_VERSION_NEWEST
) -> BatchHeader:
    """Check that `buf` is exactly one batch of magic 2 that a client may send, its checksum, and at
    level QUICK what `structure` finds.

    Returns: its header.
    Raises:
        CorruptBatch: cut off, or a wrong checksum.
        InvalidRecord: not exactly one batch, another magic, counts that contradict, flags that only a broker may set, other records than
            the header counts.
        RecordTooLarge: above `rules.max_batch_bytes`. UnsupportedCodec: unknown, or zstd before Produce 7.
        InvalidTimestamp: LogAppendTime set by the client.
    """
    size = len(buf)
    if size <= MAGIC_POSITION:
        raise InvalidRecord(f"expected one record batch, found {size} bytes")
    if buf[MAGIC_POSITION] != 2:
        raise InvalidRecord(f"expected a record batch of magic 2, found magic {buf[MAGIC_POSITION]}")
    if size < BATCH_OVERHEAD:
        raise CorruptBatch(f"a batch header has {BATCH_OVERHEAD} bytes, found {size}")
    fields = HEADER.unpack_from(
        buf
    )  # in place, and no calls but this one and the checksum's: every Produce comes by here
    base_offset, length, _, _, crc, attributes, last_delta, _, _, producer_id, _, base_sequence, count = fields
    if length + LENGTH_FIELD_END != size:
        raise _wrong_size(length + LENGTH_FIELD_END, size)
    if size > rules.max_batch_bytes:
        raise RecordTooLarge(f"a batch of {size} bytes, where max.message.bytes is {rules.max_batch_bytes}")
    if count < 1 or last_delta != count - 1:
        raise InvalidRecord(f"a batch of {count} records with a last offset delta of {last_delta}")
    if base_offset != 0:
        raise InvalidRecord(f"a producer's batch has the base offset 0, found {base_offset}")
    if attributes & _FORBIDDEN:
        raise _forbidden(attributes)
    if producer_id >= 0 and base_sequence < 0:
        raise InvalidRecord(f"sequence {base_sequence} in a batch of producer {producer_id}")
    codec_id = attributes & CODEC_MASK
    if codec_id >= ZSTD_ID:
        _check_codec(codec_id, produce_version)
    if crc32c(buf[CRC_START:]) != crc:
        raise CorruptBatch(
            f"checksum {crc:#010x} stands in the batch, but its bytes give {crc32c(buf[CRC_START:]):#010x}"
        )
    header: BatchHeader = tuple.__new__(BatchHeader, fields)
    if rules.quick:
        if codec_id:
            check_compressed(buf, codec_id, count, rules.limit_bytes)
        else:
            check_record_lengths(buf, BATCH_OVERHEAD, size, count)
    return header


def needs_record_validation(header: BatchHeader, rules: ValidationRules, now_ms: int) -> bool:
    """Whether every record of the batch has to be read: the rules ask for it, or the header's times
    are not what a producer writes that gives its records times, or are beyond the topic's bound.
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


def _forbidden(attributes: int) -> InvalidRecord | InvalidTimestamp:
    if attributes & CONTROL:
        return InvalidRecord("a client may not write control records")
    if attributes & LOG_APPEND_TIME:
        return InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")
    return InvalidRecord("a producer may not set a delete horizon")


def _check_codec(codec_id: int, produce_version: int) -> None:
    if codec_id == ZSTD_ID and produce_version < PRODUCE_VERSION_ZSTD:
        raise UnsupportedCodec(f"zstd needs Produce {PRODUCE_VERSION_ZSTD} or above, this is {produce_version}")
    if codec_id > _KAFKAS_CODECS_MAX and CODECS.by_id(codec_id) is None:
        raise UnsupportedCodec(f"no codec has the id {codec_id}")


def validate_records(buf: memoryview, header: BatchHeader, rules: ValidationRules, now_ms: int) -> BatchHeader:
    """Check every record of a batch whose header was checked; returns the header with the records'
    greatest time.

    Raises: InvalidRecord, InvalidTimestamp: as `RecordValidator.finish`, or the records don't follow
    their format. UnsupportedCodec.
    """
    checker = RecordValidator(header, rules, now_ms)
    try:
        checker.take(decode_records(decompressed(buf, 0, header, rules.limit_bytes), header))
    except CorruptBatch as error:
        raise unreadable(error) from None
    return checker.finish(buf)


def unreadable(error: CorruptBatch) -> InvalidRecord:
    """The checksum was right, so the producer sent it so and would send it so again: no error that
    clients retry.
    """
    return InvalidRecord(f"the records of the batch can't be read: {error}")
