"""Old clients and old logs: message sets of magic 0 and 1 beside batches of magic 2, and the ways
between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kqueue.base.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    DECOMPRESSED_BYTES_MAX,
    MAGIC_POSITION,
    BatchHeader,
    decompressed,
    iter_batches,
    iter_records,
    read_header,
)
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.contract import Buffer
from kqueue.records.message_set import (
    LEGACY_CODEC_MAX,
    STEP_MESSAGES,
    LegacyEntry,
    check_entry,
    encode_entry,
    encode_set,
    encode_set_steps,
    entry_records,
    entry_records_steps,
    inner_entries_steps,
    iter_entries,
    read_entry,
)
from kqueue.records.record import Record, decode_records

__all__ = [
    "LegacyEntry",
    "check_entry",
    "down_convert",
    "encode_entry",
    "encode_set",
    "entry_records",
    "iter_any_batches",
    "iter_any_records",
    "iter_entries",
    "up_convert",
]  # fmt: skip


def iter_any_batches(
    buf: Buffer, pos: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader | LegacyEntry]]:
    """(position, header or entry) of all that stands in a log, whatever its magic; stops where the
    last is cut off.

    Both kinds have `size`, `magic`, `attributes`, `crc`, `codec_id`, `is_log_append_time`,
    `last_offset`, `next_offset`, `max_timestamp`. Raises: CorruptBatch: as `read_header` and
    `iter_entries`. Checksums are not looked at.
    """
    end = len(buf) if end is None else end
    while end - pos > MAGIC_POSITION:
        unit: BatchHeader | LegacyEntry | None
        if buf[pos + MAGIC_POSITION] < 2:
            unit = read_entry(buf, pos, end)
        else:
            unit = read_header(buf, pos) if end - pos >= BATCH_OVERHEAD else None
        if unit is None or unit.size > end - pos:
            return
        yield pos, unit
        pos += unit.size


def iter_any_records(buf: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Every record of batches and message sets of any magic, control records included; a cut-off
    end is passed over.

    Args: limit_bytes: what one batch or wrapper may decompress to. Raises: CorruptBatch,
    UnsupportedCodec: as `iter_records`. Checksums are not looked at, but of messages in wrappers.
    """
    for pos, unit in iter_any_batches(buf):
        if isinstance(unit, BatchHeader):
            yield from iter_records(buf, pos, limit_bytes=limit_bytes)
        else:
            yield from entry_records(unit, limit_bytes)


# --- up: what old producers send


def up_convert(
    message_set: Buffer, *, max_batch_bytes: int = 2**31 - 1, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> list[bytearray]:
    """Batches of magic 2 with what a producer sent in Produce 0-2, to be checked and appended one
    after another.

    A wrapper becomes a batch of its codec; messages in a row become one batch, or several where one
    would pass `max_batch_bytes`. The offsets that the producer gave mean nothing. Batches of magic
    2 are handed through.

    Args: limit_bytes: what all wrappers together may decompress to. Returns: a list, empty for an
    empty set. Raises: CorruptBatch: checksums, lengths, bytes left over. InvalidRecord: magics
    mixed. InvalidTimestamp: a producer claims LogAppendTime. UnsupportedCodec: one that the format
    does not have.
    """
    return run_to_end(up_convert_steps(message_set, max_batch_bytes=max_batch_bytes, limit_bytes=limit_bytes))


def up_convert_steps(message_set: Buffer, *, max_batch_bytes: int, limit_bytes: int) -> SlicedWork[list[bytearray]]:
    """`up_convert` in steps; `message_set` is read until the end."""
    if len(message_set) > MAGIC_POSITION and message_set[MAGIC_POSITION] == 2:
        return _whole_batches(message_set)
    runs: list[tuple[int, list[LegacyEntry]]] = []  # codec, messages that share a batch
    for number, entry in enumerate(_produced_entries(message_set)):
        if not number % STEP_MESSAGES:
            yield None
        if entry.codec_id:
            inside = yield from inner_entries_steps(entry, limit_bytes)
            limit_bytes -= inside[-1].position + inside[-1].size
            runs.append((entry.codec_id, inside))
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
    assert codec is not None, "its messages were read with it"
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


# --- down: what old consumers can read


def down_convert(
    buf: Buffer,
    magic: int,
    *,
    start_offset: int = 0,
    max_bytes: int | None = None,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """The records of a fetched region as message sets of `magic` 0 or 1; what is of that magic or
    below stays as it is.

    Headers, sequences and (in magic 0) timestamps have no place there and are dropped; so are
    control batches, whose offsets are then a gap. Codecs are kept but for zstd and plugins', whose
    records come uncompressed. Transactions mean nothing to old clients: they see aborted records
    too.

    Args:
        buf: whole batches; a cut-off end is passed over.
        start_offset: uncompressed records below it are left out.
        max_bytes: stop after the batch that reaches it; None = all.
        limit_bytes: what one batch may decompress to.
    Raises: CorruptBatch, UnsupportedCodec: as `iter_any_records`. Checksums are not looked at.
    """
    steps = down_convert_steps(buf, magic, start_offset=start_offset, max_bytes=max_bytes, limit_bytes=limit_bytes)
    return run_to_end(steps)


def down_convert_steps(
    buf: Buffer, magic: int, *, start_offset: int, max_bytes: int | None, limit_bytes: int
) -> SlicedWork[bytes]:
    """`down_convert` in steps; `buf` is read until the end."""
    assert magic in (0, 1), magic
    parts: list[bytes] = []
    size = 0
    for pos, unit in iter_any_batches(buf):
        if max_bytes is not None and size >= max_bytes:
            break
        parts.append((yield from _down_convert_unit(buf, pos, unit, magic, start_offset, limit_bytes)))
        size += len(parts[-1])
    return b"".join(parts)


def _down_convert_unit(
    buf: Buffer, pos: int, unit: BatchHeader | LegacyEntry, magic: int, start_offset: int, limit_bytes: int
) -> SlicedWork[bytes]:
    records: Iterator[Record]
    if isinstance(unit, LegacyEntry):
        if unit.magic <= magic:
            return bytes(buf[pos : pos + unit.size])
        records = iter((yield from entry_records_steps(unit, limit_bytes)))
    elif unit.is_control:
        return b""
    else:
        records = decode_records((yield partial(decompressed, buf, pos, unit, limit_bytes)), unit)
    codec_id = unit.codec_id if unit.codec_id <= LEGACY_CODEC_MAX else 0
    if not codec_id:
        records = (record for record in records if record.offset >= start_offset)
    return (yield from encode_set_steps(records, magic, codec_id, log_append_time=unit.is_log_append_time))
