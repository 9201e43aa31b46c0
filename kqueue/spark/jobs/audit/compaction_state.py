"""Tells whether compaction may have removed records of a topic. No pyspark."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection
from pathlib import Path

from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import CorruptIndex, StorageFailed
from kqueue.base.names import METADATA_TOPIC
from kqueue.broker.topics.kafka_metadata import read_topics
from kqueue.broker.topics.topics import PREFIX
from kqueue.client.errors import BrokerRefused
from kqueue.client.topic_partition import TopicPartition
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, decode_offsets
from kqueue.metadata.sqlite import FILE_NAME
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.record_reader import RecordReader

POLICY = "cleanup.policy"
DEFAULT = "delete"


class CompactionState:
    """policies: known cleanup.policy per topic. cleaned: the cleaner's offset per partition."""

    def __init__(self, policies: dict[str, str], cleaned: dict[TopicPartition, int]) -> None:
        self.policies = policies
        self.cleaned = cleaned

    def may_have_removed(self, topic_partition: TopicPartition) -> bool:
        """Return whether compaction may have removed whole batches of a partition."""
        return "compact" in self.policies.get(topic_partition.topic, DEFAULT) or topic_partition in self.cleaned


def compaction(reader: RecordReader, topics: Collection[str]) -> CompactionState:
    """Ask the brokers, or the folder: its metadata (kqueue's or Kafka's own) and the checkpoint of
    Kafka's cleaner.
    """
    if isinstance(reader, BrokerReader):
        return CompactionState(_of_brokers(reader, topics), {})
    assert isinstance(reader, FileReader)
    return CompactionState(_of_folder(reader), _cleaned(reader))


def _of_brokers(reader: BrokerReader, topics: Collection[str]) -> dict[str, str]:
    try:
        configs = reader.client.configs(ResourceType.TOPIC, topics, [POLICY])
    except BrokerRefused:  # who may read may not be allowed to see settings
        return {}
    return {topic: values[POLICY].value or DEFAULT for topic, values in configs.items() if POLICY in values}


def _of_folder(reader: FileReader) -> dict[str, str]:
    compacted = {}
    for name, value in _stored(Path(str(reader.storage.location), FILE_NAME)):
        with contextlib.suppress(ValueError, AttributeError):
            compacted[name] = str(json.loads(value)["configs"].get(POLICY) or DEFAULT)
    folder = f"{METADATA_TOPIC}-0"
    if reader.storage.exists(folder):
        for topic in read_topics(reader.storage, folder).by_id.values():
            compacted.setdefault(topic.name, topic.configs.get(POLICY) or DEFAULT)
    return compacted


def _stored(path: Path) -> list[tuple[str, bytes]]:
    """Return the topics in kqueue's metadata store, opened read-only as a broker may use it.

    Empty if it cannot be read.
    """
    if not path.is_file():
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT key, value FROM entries WHERE key LIKE ?", (f"{PREFIX}%",)).fetchall()
    except sqlite3.Error:
        return []
    return [(str(key).removeprefix(PREFIX), value) for key, value in rows]


def _cleaned(reader: FileReader) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(*topic_partition): offset
            for topic_partition, offset in decode_offsets(reader.storage.read(CLEANER_OFFSETS)).items()
        }
    except (FileNotFoundError, CorruptIndex, StorageFailed):
        return {}
