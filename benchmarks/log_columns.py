"""Records to Arrow columns and back, per engine on one core; a log to Parquet, by rows and by
columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.log_data import START_MS, temporary_folder
from benchmarks.results import Figure, Row
from kqueue.base.clock import SystemClock
from kqueue.base.errors import ExtraNeeded
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log_tools.export import export
from kqueue.log_tools.folder import open_log
from kqueue.records.arrow import engine as engines
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.encoder import encode_batches
from kqueue.records.arrow.engine import EngineName
from kqueue.records.batch import read_header, stamp
from kqueue.records.builder import BatchBuilder
from kqueue.storage import LocalStorage

KEY_BYTES = 12
BATCH_BYTES = 500_000
SIZES = (100, 1_000)  # of key and value together
SLOWER = 20  # plain Python gets so much less to do
RECORDS_AIM = 4_000_000  # a second, of 100 bytes
MB_AIM = 600  # a second, of records of 1 KB
ROUNDS = 3
_PARTITION = "t-0"


def columns(size: int) -> Row:
    """Decoding, checksums included, and encoding of about `size` bytes of records."""
    figures = []
    for engine in _engines():
        for record_bytes in SIZES:
            count = max(size // record_bytes // (SLOWER if engine == "python" else 1), 1_000)
            figures += [_decode(engine, record_bytes, count), _encode(engine, record_bytes, count)]
    return Row(
        "columns of Arrow, from batches and to batches",
        figures,
        f"one core, uncompressed batches of {BATCH_BYTES // 1000} KB",
    )


def to_parquet(size: int) -> Row:
    """`kqueue log export` of a log of `size` bytes, records of 100 bytes."""
    figures = []
    for engine in _engines():
        with temporary_folder() as folder:
            count = _write(folder, max(size // (SLOWER if engine == "python" else 1), 5_000_000), SIZES[0])
            seconds = _best(lambda: _export(engine, folder))  # noqa: B023
            figures.append(Figure(count / seconds, f"records/s, {engine}"))
    return Row(
        "export of a log to Parquet",
        figures,
        f"records of {SIZES[0]} bytes that don't compress well; python: row by row",
    )


def _engines() -> list[EngineName]:
    try:
        engines.load_compiled_engine("fast")
    except ExtraNeeded:  # kqueue[fast] is not installed
        return ["python"]
    return ["python", "fast"]


def _best(work: Callable[[], object]) -> float:
    """Seconds of the quickest round; one goes before, which compiles what there is to compile."""
    rounds_s = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        work()
        rounds_s.append(time.perf_counter() - began)
    return min(rounds_s[1:])


def _values(record_bytes: int, count: int) -> list[bytes]:
    text = b"".join(b"%06d" % (number * 7_919 % 1_000_003) for number in range(record_bytes + 1_000))
    return [text[number % 1_000 : number % 1_000 + record_bytes - KEY_BYTES] for number in range(count)]


def _batches(record_bytes: int, count: int) -> bytes:
    """`count` records at least."""
    per_batch = max(min(BATCH_BYTES // record_bytes, count), 1)
    builder = BatchBuilder()
    for number, value in enumerate(_values(record_bytes, per_batch)):
        builder.append(START_MS + number, b"%0*d" % (KEY_BYTES, number), value)
    batch, parts = builder.build(), []
    for number in range(-(-count // per_batch)):
        stamp(batch, 0, number * per_batch, 0)
        parts.append(bytes(batch))
    return b"".join(parts)


def _decode(engine: EngineName, record_bytes: int, count: int) -> Figure:
    buf, rows = _batches(record_bytes, count), 0

    def work() -> None:
        nonlocal rows
        decoder = ColumnDecoder(engine=engine)
        rows = sum(piece.rows for piece in decoder.feed(buf)) + sum(piece.rows for piece in decoder.finish())

    seconds = _best(work)
    if rows < count:
        raise RuntimeError(f"{rows} of {count} records were found")
    return _figure(rows, rows * record_bytes, seconds, f"{engine}, decoded, {record_bytes} bytes", engine, record_bytes)


def _encode(engine: EngineName, record_bytes: int, count: int) -> Figure:
    table = pa.table(
        {"key": [b"%0*d" % (KEY_BYTES, number) for number in range(count)], "value": _values(record_bytes, count)}
    )
    seconds = _best(
        lambda: [None for _ in encode_batches(table, batch_bytes=BATCH_BYTES, engine=engine, default_ms=START_MS)]
    )
    return _figure(count, count * record_bytes, seconds, f"{engine}, encoded, {record_bytes} bytes", "", record_bytes)


def _figure(count: int, size: int, seconds: float, what: str, engine: str, record_bytes: int) -> Figure:
    if record_bytes == SIZES[0]:
        return Figure(count / seconds, f"records/s {what}", at_least=RECORDS_AIM if engine == "fast" else None)
    return Figure(size / 1e6 / seconds, f"MB/s {what}", at_least=MB_AIM if engine == "fast" else None)


def _write(folder: Path, size: int, record_bytes: int) -> int:
    """A partition of about that size. Returns how many records are in it."""
    log = Log.open(LocalStorage(folder), _PARTITION, LogConfig.of(), SystemClock())
    batch = bytearray(_batches(record_bytes, BATCH_BYTES // record_bytes))
    header = read_header(batch)
    for _ in range(-(-size // len(batch))):
        log.append(batch, header, leader_epoch=0)
    records = log.end_offset
    log.close()
    return records


def _export(engine: EngineName, folder: Path) -> None:
    kept = engines.FAST
    try:
        if engine == "python":
            engines.FAST = "kqueue.no_such_engine"
        export([open_log(folder / _PARTITION)], folder / "all.parquet", overwrite=True)
    finally:
        engines.FAST = kept
