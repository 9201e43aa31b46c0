"""Names of the files of a partition's folder: 20 digits of the first offset, then a suffix.

Source: Kafka LogFileUtils.
"""

from __future__ import annotations

import re

LOG = ".log"
INDEX = ".index"
TIMEINDEX = ".timeindex"
TXNINDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIMEINDEX, TXNINDEX)

# files of an interrupted compaction or deletion
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
FOLDER_DELETED = "-delete"

_NAME = re.compile(r"(?P<offset>[0-9]{20})(?P<suffix>\.[a-z]+)\Z", re.ASCII)


def file_name(offset: int, suffix: str) -> str:
    """Return the name of a file, for example ``00000000000000000042.log``."""
    assert offset >= 0
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return (offset, suffix) of a segment's or snapshot's file; None: any other name."""
    match = _NAME.match(name)
    return (int(match["offset"]), match["suffix"]) if match else None
