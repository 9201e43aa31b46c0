"""Conversion between message sets (magic 0 and 1) and batches of magic 2, for old clients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kqueue.base.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from kqueue.base.sliced_task import SlicedWork
from kqueue.records.any_format import AnyBatch, iter_any_batches
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, MAGIC_POSITION, decompressed, iter_batches
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.contract import Buffer
from kqueue.records.message_set import (
    LEGACY_CODEC_MAX,
    STEP_MESSAGES,
    LegacyEntry,
    check_entry,
    encode_set_steps,
    entry_records_steps,
    inner_entries_steps,
    iter_entries,
)
from kqueue.records.record import Record, decode_records

# --- up-conversion: what old producers send


def up_convert(
    message_set: Buffer, *, max_batch_bytes: int = 2**31 - 1, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> SlicedWork[list[bytearray]]:
    """Return, in steps, batches of magic 2 with the records that a producer sent in Produce 0-2.

    The caller validates and appends them one by one. A wrapper becomes a batch of its codec.
    Uncompressed messages in a row become one batch, or several where one would exceed
    `max_batch_bytes`. The producer's offsets are ignored. Batches of magic 2 are copied unchanged.

    Args:
        message_set: unchanged until the last step.
        limit_bytes: most bytes that all wrappers together may decompress to.
    Returns: the batches; empty for an empty set.
    Raises:
        CorruptBatch: a wrong checksum or length, or trailing bytes.
        InvalidRecord: the set mixes magics.
        InvalidTimestamp: a message claims LogAppendTime.
        UnsupportedCodec: the message format does not have the codec.
    """
    if len(message_set) > MAGIC_POSITION and message_set[MAGIC_POSITION] == 2:
        return _whole_batches(message_set)
    runs: list[tuple[int, list[LegacyEntry]]] = []  # codec id, messages of one batch
    for number, entry in enumerate(_produced_entries(message_set)):
        if not number % STEP_MESSAGES:
            yield None
        if entry.codec_id:
            messages = yield from inner_entries_steps(entry, limit_bytes)
            limit_bytes -= messages[-1].position + messages[-1].size
            runs.append((entry.codec_id, messages))
        elif runs and not runs[-1][0]:
            runs[-1][1].append(entry)
        else:
            runs.append((0, [entry]))
    batches: list[bytearray] = []
    for codec_id, messages in runs:
        batches += yield from _build_steps(codec_id, messages, max_batch_bytes)
    return batches


def _whole_batches(buf: Buffer) -> list[bytearray]:
    batches = [bytearray(buf[pos : pos + header.size]) for pos, header in iter_batches(buf)]
    _check_nothing_left(buf, sum(map(len, batches)))
    return batches


def _produced_entries(message_set: Buffer) -> Iterator[LegacyEntry]:
    end, magic = 0, None
    for entry in iter_entries(message_set):
        check_entry(message_set, entry)
        if magic not in (None, entry.magic):
            raise InvalidRecord(f"a message of magic {entry.magic} follows one of magic {magic}")
        if entry.is_log_append_time:
            raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")
        magic, end = entry.magic, entry.position + entry.size
        yield entry
    _check_nothing_left(message_set, end)


def _check_nothing_left(buf: Buffer, end: int) -> None:
    if end != len(buf):
        raise CorruptBatch(f"the message set is cut off: its last {len(buf) - end} bytes are no whole message")


def _build_steps(codec_id: int, messages: list[LegacyEntry], max_batch_bytes: int) -> SlicedWork[list[bytearray]]:
    codec = CODECS.by_id(codec_id)
    assert codec is not None, "its messages were decompressed with it"
    builder, batches = BatchBuilder(codec.name), list[bytearray]()
    for number, message in enumerate(messages):
        if not number % STEP_MESSAGES:
            yield None
        if not codec_id and builder.count and builder.size_estimate + message.size > max_batch_bytes:
            batches.append(builder.build())
            builder = BatchBuilder(codec.name)
        builder.append(message.timestamp, message.key, message.value)
    batches.append((yield builder.build))
    return batches


# --- down-conversion: what old consumers can read


def down_convert(
    buf: Buffer,
    magic: int,
    *,
    start_offset: int = 0,
    max_bytes: int | None = None,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> SlicedWork[bytes]:
    """Return, in steps, the records of a fetched region as message sets of `magic` 0 or 1.

    Entries of that magic or below are copied unchanged. Headers, sequences and (in magic 0)
    timestamps are dropped, because the format has no fields for them. Control batches are dropped,
    which leaves gaps in the offsets. Codecs are kept, except zstd and plugins' codecs, whose
    records become uncompressed. Old clients know no transactions, so they see aborted records too.
    Checksums are not compared.

    Args:
        buf: whole batches, unchanged until the last step; an incomplete last one is skipped.
        start_offset: uncompressed records below it are omitted.
        max_bytes: stop after the batch that reaches it; None: no limit.
        limit_bytes: most bytes that one batch may decompress to.
    Raises: CorruptBatch, UnsupportedCodec: as `iter_any_records`.
    """
    assert magic in (0, 1), magic
    parts: list[bytes] = []
    size = 0
    for pos, batch in iter_any_batches(buf):
        if max_bytes is not None and size >= max_bytes:
            break
        parts.append((yield from _down_convert_batch(buf, pos, batch, magic, start_offset, limit_bytes)))
        size += len(parts[-1])
    return b"".join(parts)


def _down_convert_batch(
    buf: Buffer, pos: int, batch: AnyBatch, magic: int, start_offset: int, limit_bytes: int
) -> SlicedWork[bytes]:
    records: Iterator[Record]
    if isinstance(batch, LegacyEntry):
        if batch.magic <= magic:
            return bytes(buf[pos : pos + batch.size])
        records = iter((yield from entry_records_steps(batch, limit_bytes)))
    elif batch.is_control:
        return b""
    else:
        records = decode_records((yield partial(decompressed, buf, pos, batch, limit_bytes)), batch)
    codec_id = batch.codec_id if batch.codec_id <= LEGACY_CODEC_MAX else 0
    if not codec_id:
        records = (record for record in records if record.offset >= start_offset)
    return (yield from encode_set_steps(records, magic, codec_id, log_append_time=batch.is_log_append_time))
