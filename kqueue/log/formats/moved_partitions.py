"""The file `kqueue-moved-partitions` of a data folder: partitions that a move is bringing here.

    {"version": 1, "moved": [{"topic": "t", "partition": 0, "topic_id": "<32 hex digits>",
      "future": "t-0.<32 hex digits>-future", "segment": 4711, "size": 1048576}]}

`segment` and `size`: base offset and bytes of the old log's last segment when the copy was
complete. An entry is the commit of a move; see `log_mover`. Kafka ignores the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.base.names import partition_folder

MOVED_PARTITIONS = "kqueue-moved-partitions"
FOLDER_FUTURE = "-future"
VERSION = 1
_FUTURE = re.compile(r"(?P<folder>.+)\.[0-9a-f]{32}-future\Z", re.ASCII | re.DOTALL)


class MovedPartition(NamedTuple):
    """A partition whose complete copy is in the folder `future`; see the module."""

    topic: str
    partition: int
    topic_id: bytes
    future: str
    segment: int
    size: int

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


def future_folder(topic: str, partition: int, unique: str) -> str:
    """Return the name of the folder of a future replica. `unique`: 32 hex digits. Kafka's name."""
    return f"{partition_folder(topic, partition)}.{unique}{FOLDER_FUTURE}"


def folder_of_future(name: str) -> str | None:
    """Return the partition's folder name of a future replica's; None: `name` is none."""
    match = _FUTURE.match(name)
    return match["folder"] if match else None


def encode_moved(moved: Iterable[MovedPartition]) -> bytes:
    """Return the file's content."""
    rows = [one._asdict() | {"topic_id": one.topic_id.hex()} for one in moved]
    return json.dumps({"version": VERSION, "moved": rows}).encode()


def decode_moved(data: bytes) -> list[MovedPartition]:
    """Return the entries. Raises: CorruptIndex."""
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}")
        moved = []
        for row in content["moved"]:
            topic, index, future = str(row["topic"]), int(row["partition"]), str(row["future"])
            if folder_of_future(future) != partition_folder(topic, index):
                raise ValueError(future)
            topic_id = bytes.fromhex(row["topic_id"])
            moved.append(MovedPartition(topic, index, topic_id, future, int(row["segment"]), int(row["size"])))
        return moved
    except Exception as error:
        raise CorruptIndex(
            f"expected the moved partitions of version {VERSION}, found {data[:200]!r}: {error}"
        ) from None
