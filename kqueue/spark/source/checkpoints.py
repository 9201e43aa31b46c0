"""Makes a stream's checkpoint one that Spark's own Kafka source reads. No pyspark.

A file of the folder ``offsets`` has a version, a line of Spark's, and a line for each source.
Spark's own source refuses `ANNOTATIONS` in its line; kqueue's reads lines without them too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import ANNOTATIONS, BEGIN, from_json, parse_json, plain

OFFSETS = "offsets"
COMMITS = "commits"
VERSION = "v1"
HEADER_LINES = 2
FILE_BYTES_MAX = 256 * 1024**2


def to_kafka(checkpoint: Path) -> int:
    """Remove the annotations of kqueue's source from a checkpoint whose query does not run.

    Each file is replaced at once, so that a call that was killed can be repeated. What is lost is
    the ids of topics, by which a recreated topic is noticed.

    Returns: how many batches were changed; 0: none had annotations.
    Raises: OptionError: no checkpoint, one that is not understood, or one whose first batch is not
        done; nothing was changed. OSError.
    """
    offsets = checkpoint / OFFSETS
    batches = _batches(offsets)
    if not batches:
        raise OptionError(f"{checkpoint} is no checkpoint of a stream that has begun: it has no {OFFSETS}")
    done = _batches(checkpoint / COMMITS)
    changed = {}
    for number in batches:
        lines, annotated = _without_annotations(offsets / str(number))
        if annotated:
            changed[number] = lines
        if number == batches[-1] and number not in done and BEGIN in annotated:
            raise OptionError(
                f"the first batch of {checkpoint} is not done, and only kqueue's source knows where it begins: start "
                "the query once more with kqueue, until it is"
            )
    for number, lines in changed.items():
        _replace(offsets / str(number), "\n".join(lines))
    return len(changed)


def _batches(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(one.name) for one in folder.iterdir() if one.name.isascii() and one.name.isdecimal())


def _without_annotations(file: Path) -> tuple[list[str], set[str]]:
    """Return the lines of a file without annotations, and which it had. Raises: OptionError."""
    if file.stat().st_size > FILE_BYTES_MAX:
        raise OptionError(f"{file} has more than {FILE_BYTES_MAX >> 20} MB: no offsets of a batch")
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        lines = []
    if not lines or lines[0] != VERSION:
        first = lines[0][:20] if lines else ""
        raise OptionError(f"{file} begins with {first!r}: expected offsets of the version {VERSION}")
    names: set[str] = set()
    for place, line in enumerate(lines[HEADER_LINES:], HEADER_LINES):
        value: Any = parse_json(line, str(file)) if line.startswith("{") else None
        annotated = {name for name in ANNOTATIONS if isinstance(value, dict) and name in value}
        if annotated:
            from_json(value, str(file))
            lines[place] = json.dumps(plain(value), separators=(",", ":"))
            names |= annotated
    return lines, names


def _replace(file: Path, text: str) -> None:
    """Replace a file of Spark's, and leave out the checksum that Hadoop has beside it."""
    made = file.with_name(f".{file.name}.kqueue")
    with made.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    made.replace(file)
