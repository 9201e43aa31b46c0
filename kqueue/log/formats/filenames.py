"""What the files of a partition's folder are called: 20 digits of the first offset, then what it
is. Source: Kafka LogFileUtils.
"""

from __future__ import annotations

import re

LOG = ".log"
INDEX = ".index"
TIMEINDEX = ".timeindex"
TXNINDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIMEINDEX, TXNINDEX)

# what compaction and deletion leave behind when they are cut short
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
FOLDER_DELETED = "-delete"

_NAME = re.compile(r"(?P<offset>[0-9]{20})(?P<suffix>\.[a-z]+)\Z", re.ASCII)


def file_name(offset: int, suffix: str) -> str:
    """E.g. ``00000000000000000042.log``."""
    assert offset >= 0
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of a segment's or snapshot's file; None: something else, half-deleted files
    included.
    """
    match = _NAME.match(name)
    return (int(match["offset"]), match["suffix"]) if match else None
