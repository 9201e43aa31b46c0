"""Kafka's DumpLogSegments, and what its lines say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from compat_tests.kafka.maven import ToolFailed
from compat_tests.kafka.tool_host import tool_host
from kqueue.cli.log.dump import dump as dump_command
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import BatchHeader
from kqueue.records.codecs import CODECS

TOOL = "org.apache.kafka.tools.DumpLogSegments"
PRINT = ("--deep-iteration", "--print-data-log")
SANITY = ("--index-sanity-check",)
VERIFY = ("--verify-index-only",)
_DUMPING = "Dumping "
_GAPS = "Non-consecutive offsets in "
_FIELD = re.compile(r"(\w+): (\S+)")


class DumpedBatch(NamedTuple):
    """A batch, or an entry of the old formats (which has only its last offset), as the tool prints
    it.
    """

    last_offset: int
    position: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool


class Dump(NamedTuple):
    """What the tool printed of each file, and what it had to complain about (its exit status stays
    0).
    """

    lines: dict[Path, list[str]]
    complaints: list[str]


def dump(files: Iterable[Path], *options: str) -> Dump:
    """Run the tool once for all these files. Raises ToolFailed: it could not read one of them."""
    wanted = list(files)
    assert wanted, "no files to dump"
    done = tool_host().run(TOOL, "--files", ",".join(str(file) for file in wanted), *options)
    if done.status:
        raise ToolFailed(f"the tool ended with {done.status}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    lines = _by_file(done.stdout)
    assert set(lines) == set(wanted), "the tool passed files over"
    return Dump(lines, _real(done.stderr.splitlines()))


def dump_with_kqueue(files: Iterable[Path], *options: str) -> dict[Path, list[str]]:
    """The same by `kqueue log dump`, without its complaints, which it words in its own way."""
    said = CliRunner().invoke(
        dump_command, ["--files", ",".join(str(file) for file in files), *options], catch_exceptions=False
    )
    return _by_file(said.stdout)


def _by_file(said: str) -> dict[Path, list[str]]:
    lines: dict[Path, list[str]] = {}
    current: list[str] = []
    for line in said.split("\n")[:-1]:
        if line.startswith(_DUMPING):
            current = lines.setdefault(Path(line.removeprefix(_DUMPING)), [])
        else:
            current.append(line)
    return lines


def _real(complaints: list[str]) -> list[str]:
    """Without "-1 is followed by ...", which the tool says of the first record of every segment but
    a log's first.
    """
    kept = [line for line in complaints if not line.startswith("  -1 is followed by ")]
    following = [*kept[1:], ""]
    return [line for line, after in zip(kept, following) if not line.startswith(_GAPS) or " is followed by " in after]  # noqa: B905


def batches(lines: Iterable[str]) -> list[DumpedBatch]:
    """The batches among the lines of a log file."""
    return [
        _batch(dict(_FIELD.findall(line)))
        for line in lines
        if line.startswith(("baseOffset: ", "offset: ")) and " crc: " in line
    ]


def _batch(fields: dict[str, str]) -> DumpedBatch:
    last_offset = int(fields.get("lastOffset", fields.get("offset", "-1")))
    position, size, magic, crc = (int(fields[name]) for name in ("position", "size", "magic", "crc"))
    return DumpedBatch(
        last_offset, position, size, magic, fields["compresscodec"].lower(), crc, fields["isvalid"] == "true"
    )


def records(lines: Iterable[str]) -> list[dict[str, str]]:
    """The records among the lines of a log file: what is printed of each before its key."""
    return [dict(_FIELD.findall(line.split(" key: ")[0])) for line in lines if line.startswith("| offset: ")]


def payloads(lines: Iterable[str]) -> list[tuple[str | None, str | None]]:
    """Return each record's (key, value) as the tool prints them; None: null, nothing printed."""
    pairs = []
    for line in lines:
        if line.startswith("| offset: "):
            head, _, value = line.partition(" payload: ")
            _, _, key = head.partition(" key: ")
            pairs.append((key if " key: " in head else None, value if " payload: " in line else None))
    return pairs


def check_log(file: Path, lines: list[str]) -> None:
    """The tool's lines about a log file say what stands in it. Raises AssertionError."""
    raw = file.read_bytes()
    dumped = batches(lines)
    expected = []
    count = 0
    for position, unit in iter_any_batches(raw):
        codec = CODECS.by_id(unit.codec_id)
        assert codec is not None
        expected.append(DumpedBatch(unit.last_offset, position, unit.size, unit.magic, codec.name, unit.crc, True))
        count += unit.record_count if isinstance(unit, BatchHeader) else 0
    assert dumped == expected
    assert sum(batch.size for batch in dumped) == len(raw)
    if all(batch.magic == 2 for batch in dumped):
        assert len(records(lines)) == count


def check_sane(files: list[Path]) -> None:
    """Kafka's checks of indexes by themselves find nothing. Raises AssertionError."""
    sane, complaints = dump(files, *SANITY)
    for file, lines in sane.items():
        empty = file.suffix == ".index" and file.stat().st_size == 0
        assert lines == [f"{file} is empty." if empty else f"{file} passed sanity check."]
    assert complaints == []
