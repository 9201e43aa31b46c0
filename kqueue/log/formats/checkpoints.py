"""Readers and writers of the small text files of a data folder; each is read and written whole.

    recovery-point-, replication-, log-start-, cleaner-offset-checkpoint
        "0" (version), count, then lines of "topic partition offset"
    meta.properties
        comments, then key=value lines: cluster.id, node.id, directory.id, version
    partition.metadata, in each partition's folder
        "version: 0" and "topic_id: <22 characters>"
    .kafka_cleanshutdown
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
    """State of one log in the checkpoint files when it is opened.

    Attributes:
        recovery_point: everything below this offset was flushed.
        start_offset: the log start; None: none is checkpointed, so the log starts at its first
            segment.
        high_watermark: None: unknown.
        clean: the last shutdown was clean.
    """

    recovery_point: int = 0
    start_offset: int | None = None
    high_watermark: int | None = None
    clean: bool = False


NO_CHECKPOINT = LogCheckpoint()
"""Checkpoint of a log that no file names: the whole log is recovered."""


def read_small_file(storage: Storage, path: str) -> bytes:
    """Return the content of a small file.

    Raises:
        CorruptIndex: the file is larger than `FILE_BYTES_MAX`.
        FileNotFoundError: the file does not exist.
        StorageFailed: the file cannot be read.
    """
    file = storage.open(path)
    try:
        if file.size > FILE_BYTES_MAX:
            raise CorruptIndex(f"{path} has {file.size} bytes, expected {FILE_BYTES_MAX} at most")
        return file.read_at(0, file.size)
    finally:
        file.close()


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return a checkpoint file with one offset per (topic, partition)."""
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    ]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> Offsets:
    """Return the offsets of a checkpoint file.

    Raises:
        CorruptIndex: the version, the count or a line is wrong.
    """
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
    """Return the number that `text` holds: decimal digits only, within Kafka's long."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(OFFSET_MAX)) or int(text) > OFFSET_MAX:
        raise ValueError(f"expected a number, found {text[:40]!r}")
    return int(text)


def encode_properties(values: Mapping[str, str], written_ms: int) -> bytes:
    """Return `meta.properties` with the time of writing in the format of Java's Properties."""
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(written_ms // 1000))
    return "".join(["#\n", f"#{stamp}\n", *(f"{key}={value}\n" for key, value in values.items())]).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the keys and values of a properties file; comments are skipped.

    Raises:
        CorruptIndex: a line is neither a comment nor key=value.
    """
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
    """Return `partition.metadata` for a topic id of 16 bytes."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """Return the topic id, 16 bytes, of `partition.metadata`.

    Raises:
        CorruptIndex: the version or the id is wrong.
    """
    try:
        version, topic_id = data.decode("ascii").splitlines()
        if version != "version: 0" or not topic_id.startswith("topic_id: "):
            raise ValueError(f"{version!r}, {topic_id!r}")
        return parse_uuid(topic_id.removeprefix("topic_id: "))
    except ValueError as error:
        raise CorruptIndex(f"partition.metadata can't be read: {error}") from None


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Return `.kafka_cleanshutdown` with this broker epoch."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch of `.kafka_cleanshutdown`; -1: it names none."""
    try:
        epoch = json.loads(data)["brokerEpoch"]
        return epoch if isinstance(epoch, int) else -1
    except (ValueError, KeyError, TypeError):
        return -1
