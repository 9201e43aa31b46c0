"""The log engine without a broker: appends, reads, look-ups in small and in large logs, opening; no
broker, no sockets.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import log_values
from benchmarks.log_columns import columns, to_parquet
from benchmarks.log_compaction import compaction
from benchmarks.log_data import (
    BATCH_BYTES,
    START_MS,
    Shape,
    batch,
    batch_of_bytes,
    drop_from_memory,
    temporary_folder,
    write_log,
)
from benchmarks.log_produce import produce_beside
from benchmarks.results import Figure, Row
from kqueue.base.clock import SystemClock
from kqueue.base.names import partition_folder
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    RECOVERY_POINTS,
    LogCheckpoint,
    encode_clean_shutdown,
    encode_offsets,
    encode_partition_metadata,
)
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.records.batch import read_header
from kqueue.storage import LocalStorage
from kqueue.storage.descriptor_cache import DescriptorCache

Step = tuple[str, Callable[[], Row]]
GB = 10**9
READ_BYTES = 2**20
ROUNDS = 3


@dataclass(frozen=True)
class Sizes:
    """The sizes of the loads, in bytes and numbers."""

    small_appends: int = 100_000
    large_appends: int = 1_000
    segment_bytes: int = 10**9
    small_log_segments: int = 1
    large_log_segments: int = 100
    lookups: int = 5_000
    partitions: int = 100
    compacted_records: int = 10_000_000
    compacted_keys: int = 1_000_000
    latency_samples: int = 3_000
    column_bytes: int = 200 * 10**6
    written_partitions: int = 3_000
    decoded_values: int = 40_000


QUICK = Sizes(5_000, 50, 10**7, 1, 100, 500, 10, 200_000, 20_000, 300, 2 * 10**7, 1_500, 10_000)


def steps(sizes: Sizes) -> Iterator[Step]:
    yield "log: append, one record", lambda: append_small(sizes.small_appends)
    yield "log: append to many partitions", lambda: append_wide(sizes.written_partitions)
    yield "log: append and read, 1 MB", lambda: append_large(sizes.large_appends)
    yield "log: look-ups", lambda: lookups(sizes)
    yield "log: open", lambda: open_time(sizes.partitions, sizes.segment_bytes)
    yield "log: compaction", lambda: compaction(sizes.compacted_records, sizes.compacted_keys)
    yield "log: columns", lambda: columns(sizes.column_bytes)
    yield "log: export", lambda: to_parquet(sizes.column_bytes)
    if log_values.is_measurable():
        yield "log: values by a schema", lambda: log_values.values(sizes.decoded_values)
    yield (
        "log: produce beside compaction",
        lambda: produce_beside(sizes.compacted_records, sizes.compacted_keys, sizes.latency_samples),
    )


# --- appends and reads


def append_small(count: int) -> Row:
    buf = batch(1, 100)
    seconds = min(_append(buf, count)[0] for _ in range(ROUNDS))
    return Row(
        "log append, batches of one record",
        [Figure(seconds / count * 1e6, "µs/append", at_most=5), Figure(count / seconds, "appends/s")],
        "100 bytes each, to the page cache",
    )


def append_wide(partitions: int) -> Row:
    """One record to each of many logs in turn, none flushed by itself: what keeping unsynced files
    open costs.
    """
    buf = batch(1, 100)
    header = read_header(buf)
    with temporary_folder() as folder, ThreadPoolExecutor(10) as pool:
        descriptors = DescriptorCache()
        descriptors.sync_with(lambda run: void(pool.submit(run)))
        storage = LocalStorage(folder, descriptors)
        logs = [Log.open(storage, f"t-{number}", LogConfig.of(), SystemClock()) for number in range(partitions)]
        rounds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            for log in logs:
                log.append(buf, header, leader_epoch=0)
            rounds.append(time.perf_counter() - started)
        for log in logs:
            log.abandon()
    return Row(
        f"log append, one record each to {partitions} partitions in turn",
        [
            Figure(partitions / rounds[0], "appends/s, first", at_least=10_000),
            Figure(partitions / min(rounds[1:]), "appends/s, later"),
        ],
        f"100 bytes each, not flushed; {descriptors.limit} clean files are kept open",
    )


def void(_: object) -> None:
    """Call a function and drop its result."""


def append_large(count: int) -> Row:
    buf = batch_of_bytes(1_000, 10**6)
    rounds_s = [_append(buf, count) for _ in range(ROUNDS)]
    appended, flushed, read = (min(column) for column in zip(*rounds_s, strict=True))
    size = count * len(buf)
    return Row(
        "log append and sequential read, batches of 1 MB",
        [
            Figure(size / 1e6 / appended, "MB/s appended", at_least=800),
            Figure(size / 1e6 / flushed, "MB/s appended and flushed"),
            Figure(size / 1e6 / read, "MB/s read", at_least=1_000),
        ],
        f"{size / GB:.3g} GB in all; read by {READ_BYTES >> 20} MiB from the page cache",
    )


def _append(buf: bytearray, count: int) -> tuple[float, float, float]:
    """Return the seconds to append, to flush, and to read everything."""
    header = read_header(buf)
    with temporary_folder() as folder:
        log = Log.open(LocalStorage(folder), "t-0", LogConfig.of(), SystemClock())
        started = time.perf_counter()
        for _ in range(count):
            log.append(buf, header, leader_epoch=0)
        appended = time.perf_counter()
        job = log.flush_job()
        assert job is not None, "there is something to flush"
        job.run()
        job.finish(None, None)
        flushed = time.perf_counter()
        total = 0
        while fetched := log.read(_next_offset(total, buf, header.record_count), READ_BYTES, end_offset=log.end_offset):
            total += len(fetched.read())
        done = time.perf_counter()
        if total != count * len(buf):
            raise RuntimeError(f"{count * len(buf)} bytes were written and {total} read")
        log.close()
    return appended - started, flushed - started, done - flushed


def _next_offset(read_bytes: int, buf: bytearray, records: int) -> int:
    return read_bytes // len(buf) * records


# --- look-ups


def lookups(sizes: Sizes) -> Row:
    """Measure that the cost of a look-up does not grow with the log."""
    small_us, small = _lookup_us(sizes.small_log_segments, sizes.segment_bytes, sizes.lookups)
    large_us, large = _lookup_us(sizes.large_log_segments, sizes.segment_bytes, sizes.lookups)
    return Row(
        "log look-up of an offset",
        [
            Figure(small_us, f"µs, in {small / GB:.3g} GB"),
            Figure(large_us, f"µs, in {large / GB:.3g} GB"),
            Figure(large_us / small_us, "times as much", at_most=1.5),
        ],
        f"random offsets, the batch read as well; an index entry per {BATCH_BYTES / 1000:.3g} KB; median",
    )


def _lookup_us(segments: int, segment_bytes: int, samples: int) -> tuple[float, int]:
    """Return the median of the second round, and the log's size."""
    shape = Shape.draw(random.Random(segments), segments, segment_bytes, samples)
    with temporary_folder() as folder:
        write_log(folder / "t-0", shape)
        config = LogConfig.of()
        log = Log.open(
            LocalStorage(folder),
            "t-0",
            config,
            SystemClock(),
            checkpoint=LogCheckpoint(recovery_point=shape.end_offset, clean=True),
        )
        if log.end_offset != shape.end_offset or log.segments.size != shape.size:
            raise RuntimeError(
                f"{log!r} has {log.segments.size} bytes, expected {shape.size} and the end {shape.end_offset}"
            )
        offsets = [shape.offset_in(sample) for sample in shape.samples]
        _look_up(log, offsets)
        taken = _look_up(log, offsets)
        log.close()
    return statistics.median(taken) * 1e6, shape.size


def _look_up(log: Log, offsets: list[int]) -> list[float]:
    offsets = random.Random(len(offsets)).sample(offsets, len(offsets))  # in no order
    taken = []
    for offset in offsets:
        started = time.perf_counter()
        data = log.read(offset, 1, end_offset=log.end_offset).read()
        taken.append(time.perf_counter() - started)
        header = read_header(data)
        if not header.base_offset <= offset <= header.last_offset:
            raise RuntimeError(f"looked up {offset} and found {header.base_offset} to {header.last_offset}")
    return taken


# --- opening


def open_time(partitions: int, segment_bytes: int) -> Row:
    """Measure from the first access to the data folder until every log accepts appends."""
    with temporary_folder() as folder:
        end_offset = _write_data_folder(folder, partitions, segment_bytes)
        warm = _open_all(folder, partitions, end_offset)
        cold = _open_all(folder, partitions, end_offset) if drop_from_memory(folder) else float("nan")
    return Row(
        f"open {partitions} partitions of {segment_bytes / GB:.3g} GB after a clean stop",
        [Figure(warm, "s", at_most=2), Figure(cold, "s, nothing in memory", at_most=2)],
        "one segment each, with full indexes",
    )


def _write_data_folder(folder: Path, partitions: int, segment_bytes: int) -> int:
    """Write logs as after a clean stop; return their end offset."""
    shape = Shape.draw(random.Random(1), 1, segment_bytes, 1)
    for number in range(partitions):
        path = folder / partition_folder("t", number)
        write_log(path, shape)
        (path / PARTITION_METADATA).write_bytes(encode_partition_metadata(_topic_id()))
    (folder / RECOVERY_POINTS).write_bytes(
        encode_offsets({("t", number): shape.end_offset for number in range(partitions)})
    )
    return shape.end_offset


def _topic_id() -> bytes:
    return START_MS.to_bytes(16, "big")


def _open_all(folder: Path, partitions: int, end_offset: int) -> float:
    """Return seconds; the logs are abandoned, so the folder does not change."""
    (folder / CLEAN_SHUTDOWN).write_bytes(encode_clean_shutdown(-1))
    config = LogConfig.of()
    started = time.perf_counter()
    manager = LogManager([LocalStorage(folder)], clock=SystemClock(), rng=random.Random(1))
    logs = [manager.open("t", number, _topic_id(), config) for number in range(partitions)]
    seconds = time.perf_counter() - started
    wrong = [log for log in logs if log.end_offset != end_offset or log.damage]
    if wrong or manager.was_unclean:
        raise RuntimeError(f"{wrong[:1]} should end at {end_offset}, whole")
    manager.close()
    return seconds
