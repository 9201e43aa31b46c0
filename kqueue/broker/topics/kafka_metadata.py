"""Reads topics from Kafka's metadata log, `__cluster_metadata`: ids, partition counts, settings.

    record value    frame version uvarint = 1 | kind uvarint | version uvarint | fields
    kind 2          topic: name | id, 16 bytes
    kind 3          partition: index int32 | topic id, 16 bytes | ...
    kind 4          setting: type of owner int8 (2 topic) | owner | name | value, or null
    kind 9          topic removed: its id
    kinds 23-25     a transaction of records begins, ends, or is aborted
    text            uvarint of its length + 1 (0: null) | UTF-8

Further fields and all other kinds are skipped. A snapshot (`<end offset>-<epoch>.checkpoint`)
holds the state up to its end offset in the same records; the log continues from there. Read only.
Source: KIP-631, KIP-630, KIP-866.
"""

from __future__ import annotations

import copy
import logging
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from kqueue.base import events
from kqueue.base.errors import CorruptBatch
from kqueue.base.names import METADATA_TOPIC
from kqueue.log.formats.filenames import LOG, parse_file_name
from kqueue.log.scanner.batch_scanner import CheckLevel, scan
from kqueue.records.batch import BatchHeader, iter_records
from kqueue.records.varints import read_raw
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.broker")
FRAME_VERSION = 1
TOPIC, PARTITION, SETTING, REMOVED, BEGIN, ABORT = 2, 3, 4, 9, 23, 25
OWNED_BY_TOPIC = 2
_PARTITION = struct.Struct(">i16s")
_UUID_BYTES = 16
_SNAPSHOT = re.compile(r"(?P<end>[0-9]{20})-[0-9]{10}\.checkpoint\Z", re.ASCII)


@dataclass(slots=True)
class KafkaTopic:
    """One topic. `count`: highest partition index + 1. `configs`: its own settings, as text."""

    name: str
    count: int = 0
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaTopics:
    """All topics by 16-byte id; `configs` by name, because settings may precede their topic."""

    by_id: dict[bytes, KafkaTopic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    _before: KafkaTopics | None = None

    def apply(self, value: bytes) -> None:
        """Apply one record. Raises CorruptBatch: it ends within its fields."""
        try:
            version, pos = read_raw(value, 0, 32)
            kind, pos = read_raw(value, pos, 32)
            _, pos = read_raw(value, pos, 32)
            if version == FRAME_VERSION:
                self._apply(kind, value, pos)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise CorruptBatch(f"a record of {METADATA_TOPIC} of {len(value)} bytes can't be read: {error}") from None

    def _apply(self, kind: int, value: bytes, pos: int) -> None:
        if kind == TOPIC:
            name, pos = _text(value, pos)
            id = _id(value, pos)
            self.by_id[id] = KafkaTopic(name or "", 0, self.configs.setdefault(name or "", {}))
        elif kind == PARTITION:
            index, id = _PARTITION.unpack_from(value, pos)
            topic = self.by_id.get(id)
            if topic is not None:
                topic.count = max(topic.count, index + 1)
        elif kind == SETTING and value[pos] == OWNED_BY_TOPIC:
            self._set(value, pos + 1)
        elif kind == REMOVED:
            gone = self.by_id.pop(_id(value, pos), None)
            if gone is not None:
                self.configs.pop(gone.name, None)
        elif kind == BEGIN:
            self._before = copy.deepcopy(self)
        elif kind == ABORT and self._before is not None:
            self.by_id, self.configs = self._before.by_id, self._before.configs

    def _set(self, value: bytes, pos: int) -> None:
        topic, pos = _text(value, pos)
        name, pos = _text(value, pos)
        setting, _ = _text(value, pos)
        configs = self.configs.setdefault(topic or "", {})
        if setting is None:
            configs.pop(name or "", None)
        else:
            configs[name or ""] = setting


def _text(value: bytes, pos: int) -> tuple[str | None, int]:
    length, pos = read_raw(value, pos, 32)
    if length == 0:
        return None, pos
    end = pos + length - 1
    if end > len(value):
        raise IndexError(f"a text of {length - 1} bytes at {pos}")
    return value[pos:end].decode(), end


def _id(value: bytes, pos: int) -> bytes:
    if pos + _UUID_BYTES > len(value):
        raise IndexError(f"an id at {pos}")
    return value[pos : pos + _UUID_BYTES]


def log_fingerprint(storage: Storage, folder: str) -> str:
    """Return a text that changes with every Kafka run: Kafka appends while it runs. Raises
    StorageFailed.
    """
    sizes = [(entry.name, entry.size) for entry in storage.list(folder) if entry.name.endswith(LOG)]
    return " ".join(map(str, max(sizes, default=("", 0))))


def read_topics(storage: Storage, folder: str) -> KafkaTopics:
    """Return the topics at the end of the log in `folder`; an unreadable record ends it, logged.

    Raises: StorageFailed.
    """
    topics = KafkaTopics()
    names = [entry.name for entry in storage.list(folder) if not entry.is_folder]
    snapshots = sorted(name for name in names if _SNAPSHOT.match(name))
    start_offset = int(snapshots[-1][:20]) if snapshots else 0
    logs = sorted(name for name in names if (parsed := parse_file_name(name)) and parsed[1] == LOG)
    try:
        for name in snapshots[-1:]:
            for value in _values(storage, f"{folder}/{name}", 0):
                topics.apply(value)
        for name in logs:
            for value in _values(storage, f"{folder}/{name}", start_offset):
                topics.apply(value)
    except CorruptBatch as error:
        events.IMPORT_METADATA_DAMAGED.log(
            logger,
            "%s: %s: %s; later changes to topics are unknown",
            location=storage.location,
            folder=folder,
            error=error,
        )
    return topics


def _values(storage: Storage, path: str, start_offset: int) -> Iterator[bytes]:
    file = storage.open(path)
    try:
        for batch in scan(file, 0, file.size, check=CheckLevel.CHECKSUMS):
            position, unit = batch.position, batch.header
            if isinstance(unit, BatchHeader) and not unit.is_control and unit.last_offset >= start_offset:
                for record in iter_records(file.read_at(position, unit.size)):
                    if record.value is not None and record.offset >= start_offset:
                        yield record.value
    finally:
        file.close()
