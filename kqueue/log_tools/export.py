"""Exports records of log folders to a file: Parquet, Arrow, or JSON lines.

The file gets its name only when it is complete. A JSON line has the columns of a row; bytes are
text if they are UTF-8, else ``{"base64": "…"}``, which `kqueue produce --format json` reads.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from kqueue.base.names import INTERNAL_TOPICS, METADATA_TOPIC, did_you_mean, parse_partition_folder
from kqueue.log_tools.arrow import ROWS_MAX, batches_of_logs, require_pyarrow, schema
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.rows import Row, Selection, rows
from kqueue.log_tools.verify import resolve_target
from kqueue.records.json_records import json_of

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["parquet", "arrow", "jsonl"]
FORMATS: tuple[str, ...] = get_args(Format)
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
PARTIAL = ".partial"
STANDARD_OUTPUT = "-"
HIDDEN_TOPICS = INTERNAL_TOPICS | {METADATA_TOPIC}


@dataclass(slots=True)
class ExportResult:
    """The result of an export. `rows`: records written; `partitions`: folders read."""

    rows: int = 0
    partitions: list[str] = field(default_factory=list)


def format_of(to: str | Path, name: str | None = None) -> Format:
    """Return the format `name`, or without a name the one that the suffix of `to` selects.

    Raises: ValueError: there is no such format, or the suffix selects none.
    """
    if name is not None:
        known: dict[str, Format] = {format: format for format in SUFFIXES.values()}
        if name in known:
            return known[name]
        raise ValueError(f"there is no format {name!r}{did_you_mean(name, FORMATS)} (there are: {', '.join(FORMATS)})")
    suffix = Path(to).suffix
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    raise ValueError(
        f"the name {str(to)!r} does not tell the format: end it with {', '.join(SUFFIXES)}, or name the format"
    )


def open_logs(folders: Sequence[str | Path], topics: Sequence[str] = ()) -> list[LogFolder]:
    """Return the partitions in these folders.

    Args:
        folders: partition folders or data folders, or URLs of tiers.
        topics: of a data folder, export these topics; empty: all but internal topics.
    Raises:
        NotALogFolder: a folder is neither, or a topic is missing.
        StorageFailed: a folder cannot be read.
    """
    logs: list[LogFolder] = []
    for folder in folders:
        target = resolve_target(folder, topics)
        if target.partition is not None:
            logs.append(LogFolder(target.storage, target.partition, note=target.note))
            continue
        names = [entry.name for entry in target.storage.list("") if entry.is_folder]
        partitions = sorted((key, name) for name in names if (key := parse_partition_folder(name)))
        for (topic, _), name in partitions:
            if topic in topics if topics else topic not in HIDDEN_TOPICS:
                with contextlib.suppress(NotALogFolder):  # the partition is empty
                    logs.append(LogFolder(target.storage, name))
    missing = set(topics) - {log.topic for log in logs}
    if missing:
        raise NotALogFolder(f"there is no log of topic {', '.join(sorted(missing))} in {', '.join(map(str, folders))}")
    return logs


def export(
    logs: Sequence[LogFolder],
    to: str | Path,
    *,
    format: str | None = None,
    selection: Selection | None = None,
    overwrite: bool = False,
    rows_max: int = ROWS_MAX,
    progress: ProgressCallback | None = None,
    output: IO[bytes] | None = None,
) -> ExportResult:
    """Write records, one partition after another, to the file `to`.

    Args:
        format: see `format_of`.
        overwrite: replace an existing file.
        rows_max: of a Parquet row group or Arrow batch, which also ends at `arrow.BYTES_MAX`.
        progress: receives the bytes of log that are done, and their total.
        output: receives the data if `to` is "-"; JSON lines only.
    Raises:
        FileExistsError.
        ExtraNeeded: pyarrow is not installed.
        ValueError: the format.
        OSError, and as `rows`: nothing of the file remains.
    Durability: on return the file is on disk. A crash leaves the old file or none, and at most a
        file `to`.partial.
    """
    selection = selection or Selection()
    kind = format_of(to, format)
    if kind != "jsonl":
        require_pyarrow()
        if str(to) == STANDARD_OUTPUT:
            raise ValueError("only JSON lines can go to standard output")
    result = ExportResult()
    meter = ProgressMeter(progress, sum(log.size for log in logs))
    if output is not None and str(to) == STANDARD_OUTPUT:
        _write_lines(_all_rows(logs, selection, result, meter), output)
        return result
    path = Path(to)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already")
    with _whole_file(path) as file:
        if kind == "jsonl":
            _write_lines(_all_rows(logs, selection, result, meter), file)
        else:
            WRITERS[kind](_all_batches(logs, selection, result, meter, rows_max), file, selection)
    return result


def _all_rows(
    logs: Sequence[LogFolder], selection: Selection, result: ExportResult, meter: ProgressMeter
) -> Iterator[Row]:
    for log in _each(logs, result):
        for row in rows(log, selection, meter.add):
            result.rows += 1
            yield row
    meter.finish()


def _all_batches(
    logs: Sequence[LogFolder],
    selection: Selection,
    result: ExportResult,
    meter: ProgressMeter,
    rows_max: int,
) -> Iterator[pa.RecordBatch]:
    size = sum(log.size for log in logs)
    batches = batches_of_logs(_each(logs, result), selection, rows_max=rows_max, progress=meter.add, data_bytes=size)
    for batch in batches:
        result.rows += batch.num_rows
        yield batch
    meter.finish()


def _each(logs: Sequence[LogFolder], result: ExportResult) -> Iterator[LogFolder]:
    for log in logs:
        result.partitions.append(log.location)
        yield log


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that gets its name once it is complete and on disk.

    It is removed on an error.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "nt":  # Windows has no folder descriptors
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# --- formats


def _write_parquet(batches: Iterator[pa.RecordBatch], file: IO[bytes], selection: Selection) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema(selection.key_as, selection.value_as), compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=max(batch.num_rows, 1))


def _write_arrow(batches: Iterator[pa.RecordBatch], file: IO[bytes], selection: Selection) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(file, schema(selection.key_as, selection.value_as)) as writer:
        for batch in batches:
            writer.write_batch(batch)


WRITERS: dict[Format, Callable[[Iterator[pa.RecordBatch], IO[bytes], Selection], None]] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}


def _write_lines(table_rows: Iterator[Row], output: IO[bytes]) -> None:
    for row in table_rows:
        output.write(json_line(row))
    output.flush()


def json_line(row: Row) -> bytes:
    """Return a row as a line of JSON."""
    values = row._asdict()
    values["key"] = _json_of(row.key)
    values["value"] = _json_of(row.value)
    values["headers"] = [[_header_name(name), _json_of(value)] for name, value in row.headers]
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _json_of(value: Any) -> Any:
    if isinstance(value, bytes):
        return json_of(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinities and no NaN
    return value


def _header_name(name: str) -> str:
    """Return a header's name as valid UTF-8; other bytes, which JSON cannot hold, are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
