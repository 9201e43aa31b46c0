"""Compares a tier with the logs of a broker's data folder: both must have the same bytes.

Batches never change once they are committed, and a tier has committed ones only. A broker may use
the folder meanwhile. A copy of a topic with another id is another topic, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch, OffsetOutOfRange, StorageFailed
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.segments import Batch
from kqueue.log_tools.tier_urls import TierTarget
from kqueue.log_tools.verify import resolve_target
from kqueue.log_tools.verify.report import NOTE, Finding
from kqueue.storage import Storage


class ComparedLogs(NamedTuple):
    """The comparison of one partition.

    start_offset, end_offset: of what both have, and were compared; end exclusive.
    findings: what differs.
    """

    partition: str
    start_offset: int
    end_offset: int
    findings: list[Finding]


def compare_with_folder(
    target: TierTarget, folder: str | Path, *, progress: ProgressCallback | None = None
) -> list[ComparedLogs]:
    """Compare the partitions of a tier with those in a data folder, or in a partition's folder.

    Args: progress: receives the bytes that are done, and their total.
    Raises: NotALogFolder: the folder has no logs. StorageFailed: it can't be listed.
    """
    local = resolve_target(folder)
    pairs = []
    for name in _folders(target.storage, target.partition):
        if local.partition in (None, name):
            pair = _pair(target, local.storage, name)
            if pair is not None:
                pairs.append(pair)
    meter = ProgressMeter(progress, sum(tiered.size for tiered, _ in pairs))
    compared = [_compared(tiered, log, meter) for tiered, log in pairs]
    meter.finish()
    return compared


def _folders(storage: Storage, partition: str | None) -> list[str]:
    return [entry.name for entry in storage.list("") if entry.is_folder and partition in (None, entry.name)]


def _pair(target: TierTarget, local: Storage, name: str) -> tuple[LogFolder, LogFolder] | None:
    """Return both logs of a partition; None: one of them does not exist, or is of another topic."""
    try:
        log = LogFolder(local, name)
        tiered = LogFolder(target.storage, name)
    except (NotALogFolder, FileNotFoundError):
        return None
    except StorageFailed:
        return None  # the verification of the tier reports it
    return None if log.topic_id not in (None, tiered.topic_id) else (tiered, log)


def _compared(tiered: LogFolder, log: LogFolder, meter: ProgressMeter) -> ComparedLogs:
    name = tiered.folder
    findings: list[Finding] = []
    start, end = max(tiered.start_offset, log.start_offset), min(tiered.end_offset, log.end_offset)
    if tiered.end_offset < log.segments[0].base_offset:
        expected = f"offset {tiered.end_offset} of {log.location}"
        findings.append(Finding(name, None, expected, f"none before {log.segments[0].base_offset}: neither has them"))
    if log.end_offset < tiered.end_offset:
        expected = f"a local log up to {tiered.end_offset}, which the tier has"
        findings.append(Finding(name, None, expected, f"one that ends at {log.end_offset}", NOTE))
    if start >= end:
        return ComparedLogs(name, start, start, findings)
    try:
        ours = tiered.batches(start_offset=start, end_offset=end, check=False)
        difference = _first_difference(ours, log.batches(start_offset=start, end_offset=end, check=False), meter)
    except (CorruptBatch, StorageFailed, OffsetOutOfRange, FileNotFoundError) as error:
        difference = "batches that can be read", str(error)
    if difference is not None:
        findings.append(Finding(name, None, *difference))
    return ComparedLogs(name, start, end, findings)


def _first_difference(tiered: Iterator[Batch], local: Iterator[Batch], meter: ProgressMeter) -> tuple[str, str] | None:
    """Return what the local log has, and the tier in its place; None: they are equal."""
    for one, other in zip_longest(tiered, local):
        if one is None or other is None or one.base_offset != other.base_offset or one.data() != other.data():
            return f"{_text(other)}, as in the local log", _text(one)
        meter.add(one.size)
    return None


def _text(batch: Batch | None) -> str:
    if batch is None:
        return "no batch"
    return (
        f"the batch of offsets {batch.base_offset} to {batch.last_offset}, {batch.size} bytes, crc {batch.unit.crc:08x}"
    )
