"""Lists the files of a partition folder by kind, and reports the files that do not belong there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kqueue.base.text import counted
from kqueue.log.formats.filenames import (
    CLEANED,
    DELETED,
    EPOCHS,
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    file_name,
    parse_file_name,
)
from kqueue.log_tools.repaired_gaps import GAPS
from kqueue.log_tools.verify.report import ERROR, NOTE
from kqueue.storage import Storage
from kqueue.storage.paths import TEMPORARY_SUFFIX

ReportFile = Callable[[str, int | None, str, str, str], None]
"""Receives name, position, expected, found and severity."""

DAMAGED = ".damaged"
LEFTOVERS = {
    SWAP: "part of an interrupted compaction; the next start completes it",
    CLEANED: "part of an interrupted compaction; the next start removes it",
    TEMPORARY_SUFFIX: "an unfinished file; the next start removes it",
    DAMAGED: "a damaged file that a start quarantined",
}
LEFTOVERS_NAMED = 3  # per kind; the others are counted
KAFKAS_OWN = {EPOCHS, PARTITION_METADATA, GAPS, "quorum-state"}
_KAFKAS_SUFFIX = ".checkpoint"  # snapshots of Kafka's own metadata log


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition folder by kind.

    `segments`: base offset -> suffix -> size. `snapshots`: their offsets. `names`: of all entries.
    `swapping`: a compaction is being installed.
    """

    segments: dict[int, dict[str, int]] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    swapping: bool = False


def list_files(storage: Storage, folder: str, report: ReportFile, *, is_clean: bool) -> PartitionFiles:
    """Return the files of a partition folder.

    Args:
        report: receives files of other kinds, leftovers, and files without their log.
        is_clean: the last shutdown was clean; else a deletion may have been interrupted.
    Raises: StorageFailed: the folder cannot be listed.
    """
    files = PartitionFiles()
    leftovers: dict[str, list[str]] = {}
    for entry in storage.list(folder):
        name = entry.name
        parsed = parse_file_name(name)
        files.names.add(name)
        if entry.is_folder:
            report(name, None, "files only", "a folder", NOTE)
        elif parsed and parsed[1] in SEGMENT_SUFFIXES:
            files.segments.setdefault(parsed[0], {})[parsed[1]] = entry.size
        elif parsed and parsed[1] == SNAPSHOT:
            files.snapshots.append(parsed[0])
        elif name.endswith(DELETED):
            continue  # deleted after `file.delete.delay.ms`
        elif kind := next((suffix for suffix in LEFTOVERS if name.endswith(suffix)), None):
            leftovers.setdefault(kind, []).append(name)
        elif name not in KAFKAS_OWN and not name.endswith(_KAFKAS_SUFFIX):
            report(name, None, "files of a log only", "a file of another kind", NOTE)
    files.swapping = SWAP in leftovers
    _report_leftovers(leftovers, report)
    if not files.swapping:
        _report_orphans(files, report, ERROR if is_clean else NOTE)
    return files


def _report_leftovers(leftovers: dict[str, list[str]], report: ReportFile) -> None:
    for kind, names in leftovers.items():
        for name in names[:LEFTOVERS_NAMED]:
            report(name, None, "nothing left over", LEFTOVERS[kind], NOTE)
        if len(names) > LEFTOVERS_NAMED:
            report("", None, "nothing left over", f"{counted(len(names) - LEFTOVERS_NAMED, f'more {kind} file')}", NOTE)


def _report_orphans(files: PartitionFiles, report: ReportFile, severity: str) -> None:
    """Report index files without a log file, which a deletion removes first."""
    for base, suffixes in files.segments.items():
        if LOG not in suffixes:
            for suffix in suffixes:
                name = file_name(base, suffix)
                report(name, None, f"its log, {file_name(base, LOG)}", "no such file", severity)
