"""The lines of older Kafka tools, one per record, as books and guides show them.

Messages of magic 0 and 1 have the lines of Kafka 0.10, batches of magic 2 those of Kafka 1.0 to
2.0:

    offset: 0 position: 0 CreateTime: 1500000000000 isvalid: true payloadsize: 5 magic: 1
        compresscodec: NoCompressionCodec
        crc: 592888119 keysize: 3 key: abc payload: hello
    offset: 0 position: 0 CreateTime: 1500000000000 isvalid: true keysize: 3 valuesize: 5 magic: 2
        compresscodec: NONE
        producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: [] key: abc
        payload: hello

(each on one line). The position is that of the batch, or of the wrapper of a compressed message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.decoders.control import control_text
from kqueue.log_tools.dump.kafka_format import (
    BOOLEAN,
    codec_name,
    contents_text,
    entries_of,
    header_keys,
    size_of,
    time_kind,
)
from kqueue.log_tools.dump.options import DumpOptions
from kqueue.log_tools.segments import Batch
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.record import Record

OLD_CODECS = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec", "LZ4CompressionCodec")


def legacy_lines(batch: Batch, options: DumpOptions) -> Iterator[tuple[int, str]]:
    """Return (offset, line) of each record. Raises: as `kafka_format.record_lines`."""
    contents = options.contents and not batch.is_control
    position = f"position: {batch.position} {time_kind(batch)}"
    valid = BOOLEAN[batch.is_valid]
    error: DecodeError | None = None
    for record, rest in _records(batch):
        line = f"offset: {record.offset} {position}: {record.timestamp} isvalid: {valid} {rest}"
        if contents:
            try:
                line += contents_text(options, record, " ")
            except DecodeError as problem:
                error = error or DecodeError(f"{batch.where}: offset {record.offset}: {problem}")
        yield record.offset, line
    if error is not None:
        raise error


def _records(batch: Batch) -> Iterator[tuple[Record, str]]:
    """Return each record, and its line from the sizes on."""
    unit = batch.unit
    if not isinstance(unit, BatchHeader):
        codec = OLD_CODECS[unit.codec_id] if unit.codec_id < len(OLD_CODECS) else codec_name(unit.codec_id)
        for entry, offset, timestamp in entries_of(batch):
            key = "" if entry.key is None else f" keysize: {len(entry.key)}"
            rest = (
                f"payloadsize: {size_of(entry.value)} magic: {unit.magic} compresscodec: {codec} crc: {entry.crc}{key}"
            )
            yield Record(offset, timestamp, entry.key, entry.value), rest
        return
    producer = f"producerId: {unit.producer_id} producerEpoch: {unit.producer_epoch}"
    middle = f"magic: 2 compresscodec: {codec_name(unit.codec_id).upper()} {producer}"
    transactional = BOOLEAN[unit.is_transactional]
    for record in iter_records(batch.data(), 0, limit_bytes=DECOMPRESSED_BYTES_MAX):
        rest = (
            f"keysize: {size_of(record.key)} valuesize: {size_of(record.value)} {middle} sequence: {record.sequence}"
            f" isTransactional: {transactional} headerKeys: [{header_keys(record)}]"
        )
        yield record, rest + control_text(record) if unit.is_control else rest
