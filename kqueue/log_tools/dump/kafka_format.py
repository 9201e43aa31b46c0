"""The lines of Kafka 4.3 for batches and records. Source: Kafka DumpLogSegments."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.text import java_text
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.decoders.control import control_text
from kqueue.log_tools.dump.options import DumpOptions
from kqueue.log_tools.segments import Batch
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.codecs import CODECS
from kqueue.records.message_set import LegacyEntry, inner_entries, read_entry
from kqueue.records.record import Record

BOOLEAN = ("false", "true")


def batch_line(batch: Batch) -> str:
    """Return the line of a batch, or of a message of the old formats."""
    unit = batch.unit
    if isinstance(unit, BatchHeader):
        horizon = unit.delete_horizon_ms
        horizon_text = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
        head = (
            f"baseOffset: {unit.base_offset} lastOffset: {unit.last_offset} count: {unit.record_count}"
            f" baseSequence: {unit.base_sequence} lastSequence: {unit.last_sequence} producerId: {unit.producer_id}"
            f" producerEpoch: {unit.producer_epoch} partitionLeaderEpoch: {unit.leader_epoch}"
            f" isTransactional: {BOOLEAN[unit.is_transactional]} isControl: {BOOLEAN[unit.is_control]}"
            f" deleteHorizonMs: {horizon_text}"
        )
    else:
        head = f"offset: {unit.offset}"
    return (
        f"{head} position: {batch.position} {time_kind(batch)}: {unit.max_timestamp}"
        f" size: {unit.size} magic: {unit.magic}"
        f" compresscodec: {codec_name(unit.codec_id)} crc: {unit.crc} isvalid: {BOOLEAN[batch.is_valid]}"
    )


def time_kind(batch: Batch) -> str:
    """Return the timestamp type of the batch's records, as Kafka names it."""
    if batch.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.unit.is_log_append_time else "CreateTime"


def codec_name(codec_id: int) -> str:
    """Return the name of a codec, or ``unknown(id)``."""
    codec = CODECS.by_id(codec_id)
    return codec.name if codec is not None else f"unknown({codec_id})"


def record_lines(batch: Batch, options: DumpOptions) -> Iterator[tuple[int, str]]:
    """Return (offset, line) of each record.

    Raises: CorruptBatch, UnsupportedCodec. DecodeError: after all lines; the record that could not
        be decoded has a line without key and payload.
    """
    kind = time_kind(batch)
    contents = options.contents and not batch.is_control
    error: DecodeError | None = None
    for record, note in records_of(batch):
        line = (
            ""
            if options.skip_metadata
            else f"| offset: {record.offset} {kind}: {record.timestamp} {sizes(record)}{note}"
        )
        if contents:
            try:
                line += contents_text(options, record, "| " if options.skip_metadata else " ")
            except DecodeError as problem:
                error = error or DecodeError(f"{batch.where}: offset {record.offset}: {problem}")
        yield record.offset, line
    if error is not None:
        raise error


def contents_text(options: DumpOptions, record: Record, prefix: str) -> str:
    """Return key and payload; a null is left out."""
    key, value = options.decode(record)
    text = "" if key is None else f"{prefix}key: {key}"
    return text if value is None else f"{text}{prefix if key is None else ' '}payload: {value}"


def sizes(record: Record) -> str:
    """Return the sizes of key and value, -1 for null."""
    return f"keySize: {size_of(record.key)} valueSize: {size_of(record.value)}"


def size_of(data: bytes | None) -> int:
    """Return the length in bytes, -1 for null."""
    return -1 if data is None else len(data)


def records_of(batch: Batch) -> Iterator[tuple[Record, str]]:
    """Return each record with the further fields of its line, even if the checksum is wrong.

    Raises: as `record_lines`.
    """
    if not isinstance(batch.unit, BatchHeader):
        for entry, offset, timestamp in entries_of(batch):
            # The wrapper's checksum covers the messages in it.
            note = f" isValid: {BOOLEAN[batch.is_valid]} crc: {entry.crc}"
            yield Record(offset, timestamp, entry.key, entry.value), note
        return
    control = batch.is_control
    for record in iter_records(batch.data(), 0, limit_bytes=DECOMPRESSED_BYTES_MAX):
        note = f" sequence: {record.sequence} headerKeys: [{header_keys(record)}]"
        yield record, note + control_text(record) if control else note


def entries_of(batch: Batch) -> Iterator[tuple[LegacyEntry, int, int]]:
    """Return (entry, absolute offset, timestamp) of an old message, or of all in a wrapper.

    Raises: as `record_lines`.
    """
    unit = read_entry(batch.data(), 0, batch.size)
    assert unit is not None, "it lies whole in its data"
    if not unit.codec_id:
        yield unit, unit.offset, unit.timestamp
        return
    inside = inner_entries(unit, DECOMPRESSED_BYTES_MAX)
    base = unit.offset - inside[-1].offset if unit.magic else 0
    for entry in inside:
        yield entry, base + entry.offset, unit.timestamp if unit.is_log_append_time else entry.timestamp


def header_keys(record: Record) -> str:
    """Return the keys of the headers, with replacement characters for invalid UTF-8, as in Java."""
    text = ",".join([key for key, _ in record.headers])
    return text if text.isascii() else java_text(text.encode("utf-8", "surrogateescape"))
