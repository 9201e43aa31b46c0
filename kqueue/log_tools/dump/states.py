"""Lines of transaction indexes and producer snapshots. Source: Kafka DumpLogSegments."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import ENTRY, VERSION, decode_aborted
from kqueue.log_tools.dump.options import DumpOptions
from kqueue.log_tools.dump.problems import Problems
from kqueue.log_tools.dump.source_files import DumpFile

CHUNK_ENTRIES = 4096
SNAPSHOT_BYTES_MAX = 512 * 1024 * 1024  # ten million producers; a snapshot is read whole


def dump_transactions(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of an index of aborted transactions.

    Raises: CorruptIndex: size or version.
    """
    source.base_offset()
    file = source.open()
    for position in range(0, file.size, CHUNK_ENTRIES * ENTRY.size):
        for aborted in decode_aborted(file.read_at(position, CHUNK_ENTRIES * ENTRY.size)):
            yield (
                f"version: {VERSION} producerId: {aborted.producer_id} firstOffset: {aborted.first_offset}"
                f" lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
            )


def dump_snapshot(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of a producer snapshot. Raises: CorruptIndex: size, version or checksum."""
    file = source.open()
    if file.size > SNAPSHOT_BYTES_MAX:
        raise CorruptIndex(
            f"{source.shown}: a producer snapshot has at most {SNAPSHOT_BYTES_MAX} bytes, found {file.size}"
        )
    for producer_id, producer in decode_snapshot(file.read_at(0, file.size), source.base_offset()).items():
        first = producer.transaction_offset
        line = (
            f"producerId: {producer_id} producerEpoch: {producer.epoch} coordinatorEpoch: {producer.coordinator_epoch}"
            f" currentTxnFirstOffset: {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'}"
            f" lastTimestamp: {producer.last_timestamp}"
        )
        for last in list(producer.batches)[:1]:
            line += (
                f" firstSequence: {last.first_sequence} lastSequence: {last.last_sequence}"
                f" lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} timestamp: {last.timestamp}"
            )
        yield line
