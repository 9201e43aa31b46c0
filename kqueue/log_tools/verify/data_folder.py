"""Verifies a data folder's own files: identity, clean shutdown, checkpoints against the logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kqueue.base.errors import CorruptIndex, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Offsets,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
)
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log_tools.verify.partition import STATE_BYTES_MAX, CheckpointedState, LogRange
from kqueue.log_tools.verify.report import ERROR, NOTE, Finding, VerificationReport
from kqueue.storage import Storage
from kqueue.storage.paths import TEMPORARY_SUFFIX

CLEANED_TO = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_TO)
RENAMED_FOLDERS = {
    "-stray": "a stray partition: no topic claimed it",
    "-future": "a partition that is being moved from another data folder",
}
_IDENTITY = ("cluster.id",)
T = TypeVar("T")
Key = tuple[str, int]


@dataclass(slots=True)
class DataFolderState:
    """The state that a data folder stores.

    `partitions`: their folders. `offsets`: by checkpoint file; empty if the file cannot be read.
    `is_one`: it has at least one of a data folder's own files. `clean`: the last shutdown was
    clean.
    """

    partitions: dict[Key, str] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)
    is_one: bool = False
    clean: bool = False

    def known(self, folder: str, *, allow_gaps: bool = False) -> CheckpointedState:
        """Return what the checkpoints say about a partition's folder."""
        key = parse_partition_folder(folder)
        if not self.is_one or key is None:
            return CheckpointedState(cleaned=allow_gaps)
        cleaned = allow_gaps or key in self.offsets[CLEANED_TO]
        return CheckpointedState(
            self.clean, self.offsets[RECOVERY_POINTS].get(key, 0), self.offsets[LOG_STARTS].get(key, 0), cleaned
        )


def read_data_folder(storage: Storage, report: VerificationReport) -> DataFolderState:
    """Read the data folder and verify what needs no log.

    Raises: StorageFailed, FileNotFoundError: the folder cannot be listed.
    """
    folder = DataFolderState()
    names = set()
    for entry in storage.list(""):
        names.add(entry.name)
        key = parse_partition_folder(entry.name) if entry.is_folder else None
        if key is not None:
            folder.partitions[key] = entry.name
        elif entry.is_folder and (
            why := next((why for suffix, why in RENAMED_FOLDERS.items() if entry.name.endswith(suffix)), None)
        ):
            report.add(Finding(entry.name, None, "partitions in use", why, NOTE))
        elif entry.name.endswith(TEMPORARY_SUFFIX):
            report.add(Finding(entry.name, None, "nothing left over", "a file that was never finished", NOTE))
    folder.is_one = bool(names & {META_PROPERTIES, *CHECKPOINTS})
    folder.clean = CLEAN_SHUTDOWN in names
    for name in CHECKPOINTS:
        there = name in names
        folder.offsets[name] = (
            _read(storage, name, decode_offsets, "a checkpoint of offsets", report) if there else None
        ) or {}
    if folder.is_one:
        _check_identity(storage, names, report)
        _check_marker(storage, names, report)
    _check_topic_ids(storage, folder, report)
    return folder


def _read(
    storage: Storage, name: str, decode: Callable[[bytes], T], expected: str, report: VerificationReport
) -> T | None:
    try:
        file = storage.open(name)
        if file.size > STATE_BYTES_MAX:
            report.add(Finding(name, None, f"at most {STATE_BYTES_MAX} bytes", f"{file.size}"))
            return None
        return decode(file.read_at(0, file.size))
    except CorruptIndex as error:
        report.add(Finding(name, None, expected, str(error)))
    except (StorageFailed, FileNotFoundError) as error:
        report.add(Finding(name, None, "a file that can be read", str(error)))
    return None


def _check_identity(storage: Storage, names: set[str], report: VerificationReport) -> None:
    if META_PROPERTIES not in names:
        report.add(
            Finding(META_PROPERTIES, None, "the node and cluster that the folder belongs to", "no such file", NOTE)
        )
        return
    values = _read(storage, META_PROPERTIES, decode_properties, "key=value lines", report)
    if values is None:
        return
    missing = [key for key in _IDENTITY if not values.get(key)]
    if not (values.get("node.id") or values.get("broker.id")):
        missing.append("node.id")
    if missing:
        report.add(Finding(META_PROPERTIES, None, f"a value of {', '.join(missing)}", "none"))
    if values.get("version") not in ("0", "1"):
        report.add(Finding(META_PROPERTIES, None, "version 0 or 1", str(values.get("version"))))


def _check_marker(storage: Storage, names: set[str], report: VerificationReport) -> None:
    if CLEAN_SHUTDOWN not in names:
        report.add(
            Finding(
                CLEAN_SHUTDOWN,
                None,
                "the marker of a clean shutdown",
                "none: a broker uses the folder, or crashed",
                NOTE,
            )
        )
        return
    data = _read(storage, CLEAN_SHUTDOWN, bytes, "", report)
    try:
        if data:  # empty in older Kafkas
            json.loads(data)
    except ValueError:
        report.add(Finding(CLEAN_SHUTDOWN, None, "JSON, or nothing", repr(data[:40] if data else data), NOTE))


def _check_topic_ids(storage: Storage, folder: DataFolderState, report: VerificationReport) -> None:
    """Report partitions of one topic with different topic ids."""
    ids: dict[str, tuple[bytes, str]] = {}
    for (topic, _), path in sorted(folder.partitions.items()):
        try:
            topic_id = decode_partition_metadata(storage.read(f"{path}/{PARTITION_METADATA}"))
        except (FileNotFoundError, CorruptIndex, StorageFailed):
            continue  # the partition's own verification reports it
        first, where = ids.setdefault(topic, (topic_id, path))
        if topic_id != first:
            report.add(Finding(f"{path}/{PARTITION_METADATA}", None, f"the topic id that {where} has", "another one"))


def check_checkpoints(
    folder: DataFolderState, bounds: Mapping[Key, LogRange | None], report: VerificationReport
) -> None:
    """Compare the checkpoints with the offset ranges of the logs.

    After a crash the logs may have lost what the checkpoints name; then it is a note.
    """
    severity = ERROR if folder.clean else NOTE
    for name in CHECKPOINTS:
        for key, offset in folder.offsets[name].items():
            who = f"{key[0]}-{key[1]}"
            if key not in bounds and not folder.clean:
                continue  # its topic was deleted after the checkpoint
            if key not in bounds:
                report.add(Finding(name, None, f"partitions of this folder, unlike {who}", f"offset {offset}", NOTE))
                continue
            bound = bounds[key]
            end_offset = bound.end_offset if bound is not None else 0
            if offset > end_offset:
                grave = ERROR if name in (RECOVERY_POINTS, LOG_STARTS) else NOTE if name == CLEANED_TO else severity
                report.add(Finding(name, None, f"an offset of {who} up to its end, {end_offset}", str(offset), grave))
