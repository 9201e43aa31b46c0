"""The small text files of a data folder, each read and written whole.

    recovery-point-, replication-, log-start-, cleaner-offset-checkpoint: "0" (version), count,
    then lines of "topic partition offset" meta.properties: key=value lines after comments;
    `cluster.id`, `node.id`, `directory.id`, `version` partition.metadata, in each partition's
    folder: "version: 0" and "topic_id: <22 characters>" .kafka_cleanshutdown:
    {"version":0,"brokerEpoch":n}

Source: Kafka OffsetCheckpointFile, MetaProperties, PartitionMetadataFile, CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex
from kqueue.base.names import parse_uuid, uuid_text
from kqueue.storage import Storage

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

OFFSET_MAX = 2**63 - 1
FILE_BYTES_MAX = 64 * 1024 * 1024  # some 250,000 partitions with the longest of names

Offsets = dict[tuple[str, int], int]


class LogCheckpoint(NamedTuple):
    """What the checkpoint files say of one log when it is opened.

    recovery_point: everything below was flushed. start_offset: the log start; 0: none is
    checkpointed. high_watermark: None: unknown. clean: the last stop was clean.
    """

    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int | None = None
    clean: bool = False


NO_CHECKPOINT = LogCheckpoint()
"""Of a log that no checkpoint knows: everything in it is recovered."""


def read_small_file(storage: Storage, path: str) -> bytes:
    """A small file, whole. Raises CorruptIndex: it is larger than any such file can be.
    FileNotFoundError, StorageFailed.
    """
    file = storage.open(path)
    try:
        if file.size > FILE_BYTES_MAX:
            raise CorruptIndex(f"{path} has {file.size} bytes, expected {FILE_BYTES_MAX} at most")
        return file.read_at(0, file.size)
    finally:
        file.close()


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """A checkpoint file with an offset per (topic, partition)."""
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    ]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> Offsets:
    """Read such a file. Raises CorruptIndex: version, count or a line is wrong."""
    try:
        version, count, *lines = data.decode("utf-8").splitlines()
        rows = [
            (topic, _number(partition), _number(offset))
            for topic, partition, offset in (line.split(" ") for line in lines)
        ]
        if version != "0" or len(rows) != _number(count):
            raise ValueError(f"version {version}, {len(rows)} of {count} lines")
    except ValueError as error:
        raise CorruptIndex(f"an offset checkpoint can't be read: {error}") from None
    return {(topic, partition): offset for topic, partition, offset in rows}


def _number(text: str) -> int:
    """Digits and nothing else, of a number that Kafka's long holds."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(OFFSET_MAX)) or int(text) > OFFSET_MAX:
        raise ValueError(f"expected a number, found {text[:40]!r}")
    return int(text)


def encode_properties(values: Mapping[str, str], written_ms: int) -> bytes:
    """`meta.properties`, with the time of writing as Java's Properties put it."""
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(written_ms // 1000))
    return "".join(["#\n", f"#{stamp}\n", *(f"{key}={value}\n" for key, value in values.items())]).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Keys and values, comments passed over. Raises CorruptIndex: a line that is neither."""
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise CorruptIndex(f"expected key=value, found {line!r}")
        values[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return values


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic's id, 16 bytes. Raises CorruptIndex: the version or the id is wrong."""
    try:
        version, topic_id = data.decode("ascii").splitlines()
        if version != "version: 0" or not topic_id.startswith("topic_id: "):
            raise ValueError(f"{version!r}, {topic_id!r}")
        return parse_uuid(topic_id.removeprefix("topic_id: "))
    except ValueError as error:
        raise CorruptIndex(f"partition.metadata can't be read: {error}") from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
