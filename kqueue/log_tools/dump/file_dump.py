"""Chooses the dump of a file by the suffix of its name, as Kafka's tool does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kqueue.base.errors import CorruptBatch, CorruptIndex, StorageFailed, UnsupportedCodec
from kqueue.log.formats import filenames
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import ENTRY, VERSION, decode_aborted
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.dump.indexes import dump_index, dump_time_index
from kqueue.log_tools.dump.kafka_format import batch_line, record_lines
from kqueue.log_tools.dump.legacy_format import legacy_lines
from kqueue.log_tools.dump.options import DumpOptions
from kqueue.log_tools.dump.problems import Problems
from kqueue.log_tools.dump.source_files import DumpFile
from kqueue.log_tools.segments import InvalidBytes, walk

CHECKPOINT = ".checkpoint"  # a snapshot of Kafka's cluster metadata, in the format of a log
BOOTSTRAP = "bootstrap.checkpoint"

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


def dump_file(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of one file.

    Damage and read errors go to `problems`; nothing is raised for them.
    """
    dumps: dict[str, Callable[[DumpFile, DumpOptions, Problems], Iterator[str]]] = {
        filenames.LOG: dump_log,
        CHECKPOINT: dump_log,
        filenames.INDEX: dump_index,
        filenames.TIMEINDEX: dump_time_index,
        filenames.TXNINDEX: dump_transactions,
        filenames.SNAPSHOT: dump_snapshot,
    }
    yield f"Dumping {source.shown}"
    dump = dumps.get(source.suffix)
    if dump is None:
        problems.complain(f"Ignoring unknown file {source.shown}")
        return
    try:
        yield from dump(source, options, problems)
    except (CorruptIndex, StorageFailed, FileNotFoundError) as error:
        problems.complain(str(error))


def dump_log(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of a log file, batch by batch, in constant memory."""
    yield _title(source, options)
    file = source.open()
    last = -1
    lines = legacy_lines if options.form == "legacy" else record_lines
    end = file.size if options.whole_log else min(file.size, options.max_bytes)
    for item in walk(file, source.shown, 0, end):
        if isinstance(item, InvalidBytes):
            if options.whole_log:
                yield f"Found {item.size} invalid bytes at the end of {source.name}"
            if options.whole_log or not item.is_tail:
                problems.complain(f"{source.shown}, position {item.position}: {item.fault}")
            return
        if item.problem is not None:
            problems.complain(f"{item.where}: {item.problem}")
        if options.form == "kafka":
            yield batch_line(item)
        if not options.records and options.form == "kafka":
            continue
        try:
            for offset, line in lines(item, options):
                if offset != last + 1:
                    problems.gap(source.path, last, offset)
                last = offset
                yield line
        except (CorruptBatch, UnsupportedCodec) as error:
            problems.complain(f"{item.where}: {error}")
        except DecodeError as error:
            problems.complain(str(error))


def _title(source: DumpFile, options: DumpOptions) -> str:
    if source.suffix == filenames.LOG:
        return f"{'Starting offset' if options.form == 'legacy' else 'Log starting offset'}: {source.base_offset()}"
    if source.name == BOOTSTRAP:
        return "KRaft bootstrap snapshot"
    offset, _, epoch = source.name.removesuffix(CHECKPOINT).partition("-")
    if not (offset.isdecimal() and epoch.isdecimal()):
        raise StorageFailed(f"{source.shown}: expected a name such as 00000000000000000000-0000000000{CHECKPOINT}")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
