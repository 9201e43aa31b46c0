"""The lines of the tool of Kafka 0.8 to 2.x, one per record, as books and guides show them.

They changed a little from version to version; these are those of Kafka 1.0, with the checksum that earlier ones had:

    offset: 0 position: 0 CreateTime: 1500000000000 isvalid: true keysize: -1 valuesize: 5 magic: 2 compresscodec: NONE crc: 1
    producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: [] payload: hello
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.files.decoders import DecodeError
from kqueue.files.decoders.control import control_text
from kqueue.files.dump.lines import BOOLEAN, codec_name, contents_text, entries_of, header_keys, size_of, time_kind
from kqueue.files.dump.options import DumpOptions
from kqueue.files.segments import Batch
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.record import Record


def legacy_lines(batch: Batch, options: DumpOptions) -> Iterator[tuple[int, str]]:
    """(offset, line) of each record. Raises: as `lines.record_lines`."""
    unit = batch.unit
    contents = options.contents and not batch.is_control
    valid = BOOLEAN[batch.is_valid]
    codec = codec_name(unit.codec_id).upper()
    kind = time_kind(batch)
    error: DecodeError | None = None
    for record, crc, note in _records(batch):
        time = f" {kind}: {record.timestamp}" if unit.magic else ""
        line = (
            f"offset: {record.offset} position: {batch.position}{time} isvalid: {valid} keysize: {size_of(record.key)}"
            f" valuesize: {size_of(record.value)} magic: {unit.magic} compresscodec: {codec} crc: {crc}{note}"
        )
        if contents:
            try:
                line += contents_text(options, record, " ")
            except DecodeError as problem:
                error = error or DecodeError(f"{batch.where}: offset {record.offset}: {problem}")
        yield record.offset, line
    if error is not None:
        raise error


def _records(batch: Batch) -> Iterator[tuple[Record, int, str]]:
    """(record, checksum, what follows it): of magic 2 the checksum is the batch's."""
    unit = batch.unit
    if not isinstance(unit, BatchHeader):
        for entry, offset, timestamp in entries_of(batch):
            yield Record(offset, timestamp, entry.key, entry.value), entry.crc, ""
        return
    producer = f" producerId: {unit.producer_id} producerEpoch: {unit.producer_epoch}"
    transactional = BOOLEAN[unit.is_transactional]
    for record in iter_records(batch.data(), 0, limit_bytes=DECOMPRESSED_BYTES_MAX):
        note = f"{producer} sequence: {record.sequence} isTransactional: {transactional} headerKeys: [{header_keys(record)}]"
        yield record, unit.crc, note + control_text(record) if unit.is_control else note
