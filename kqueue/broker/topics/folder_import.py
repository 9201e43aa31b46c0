"""Folder import: topics of data folders that Kafka used, or that have a new metadata store.

Kafka and kqueue may use one folder in turn. If Kafka's metadata log shows that it ran since, its
changes to topics are applied before anything is served. Topics that only kqueue created stay;
Kafka does not know them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import SettingError, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, METADATA_TOPIC, uuid_text
from kqueue.base.text import counted
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.metadata.producer_ids import KEY as PRODUCER_IDS_KEY
from kqueue.broker.replicas.sole_epoch import EPOCH_KEY
from kqueue.broker.topics.kafka_metadata import KafkaTopic, log_fingerprint, read_topics
from kqueue.broker.topics.topics import OFFSETS_TOPIC, PREFIX, SHARE_TOPIC, TRANSACTIONS_TOPIC, Topics
from kqueue.log.folders.data_folder import is_meant
from kqueue.log.manager import LogManager

logger = logging.getLogger("kqueue.broker")
PRODUCER_ID_AFTER_IMPORT = 1 << 40
IMPORT_KEY = "/adopted"
METADATA_TOPICS = {METADATA_TOPIC}
"""Kafka's logs that are not topics: neither served nor changed."""
CONFIG_OF_INTERNAL = {"cleanup.policy": "compact", "compression.type": "producer"}
KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}
CONFIG_OF_SHARE_STATE = {"cleanup.policy": "delete", **KEEP_ALL}
"""Compaction would drop all but the last update of a share partition."""
RETENTIONS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes")
NO_LOG = "none"
PARTITION_COUNTS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    SHARE_TOPIC: "share.coordinator.state.topic.num.partitions",
}


def import_folders(metadata: MetadataCache, logs: LogManager, config: Config) -> None:
    """Fill a new store from the partition folders; apply to a filled one what Kafka did since.

    Settings of new topics come from Kafka's metadata, if there is any. The leader epoch continues
    above the highest in a log; producer ids start far above those in the logs.
    Raises: StorageFailed.
    """
    stored = metadata.get(IMPORT_KEY)
    last_import = json.loads(stored) if stored is not None else {}
    location = logs.location_of(METADATA_TOPIC, 0)
    fingerprint = log_fingerprint(*location) if location is not None else NO_LOG
    if stored is not None and last_import.get("mark", NO_LOG) == fingerprint:
        return
    if logs.offline:
        offline = "; ".join(str(folder.error) for folder in logs.offline)
        raise StorageFailed(f"topics can't be imported while a data folder is offline: {offline}")
    kafkas = read_topics(*location).by_id if location is not None else {}
    topic_ids = [uuid_text(id) for id in kafkas]
    puts: dict[str, bytes | None] = {IMPORT_KEY: json.dumps({"mark": fingerprint, "topics": topic_ids}).encode()}
    deleted_ids = set(last_import.get("topics", [])) - set(topic_ids)
    for name, value in metadata.with_prefix(PREFIX).items():
        if json.loads(value)["id"] in deleted_ids:
            puts[PREFIX + name] = None
    imported = (
        _topics_of_folders(logs, config, kafkas) if stored is None else _topics_of_kafka(metadata, logs, config, kafkas)
    )
    if imported or deleted_ids:
        events.IMPORT_ENDED.log(
            logger, "the data folder was used by another broker: imported %s", topics=counted(len(imported), "topic")
        )
        puts[EPOCH_KEY] = json.dumps(
            max(logs.highest_epoch() + 1, json.loads(metadata.get(EPOCH_KEY) or b"0"))
        ).encode()
    if imported and metadata.get(PRODUCER_IDS_KEY) is None:
        puts[PRODUCER_IDS_KEY] = json.dumps({"next": PRODUCER_ID_AFTER_IMPORT}).encode()
    metadata.commit_now(puts | {PREFIX + name: json.dumps(record).encode() for name, record in imported.items()})


def _topics_of_folders(
    logs: LogManager, config: Config, kafkas: Mapping[bytes, KafkaTopic]
) -> dict[str, dict[str, object]]:
    """Return the record of every topic with a folder, in Kafka's metadata or not."""
    folders = {key: folder for key, folder in logs.partition_folders().items() if key[0] not in METADATA_TOPICS}
    counts: dict[str, int] = {}
    for topic, index in folders:
        counts[topic] = max(counts.get(topic, 0), index + 1)
    imported = {}
    for topic, count in counts.items():
        id = next((folders[key].topic_id for key in sorted(folders) if key[0] == topic and folders[key].topic_id), None)
        imported[topic] = _record(topic, count, id or logs.new_topic_id(), config, kafkas.get(id) if id else None)
    return imported


def _topics_of_kafka(
    metadata: MetadataCache, logs: LogManager, config: Config, kafkas: Mapping[bytes, KafkaTopic]
) -> dict[str, dict[str, object]]:
    """Return the records of topics in Kafka's metadata with a folder, where they differ from the
    store.
    """
    counts: dict[bytes, int] = {}
    for (name, index), folder in logs.partition_folders().items():
        id = folder.topic_id
        if id is not None and id in kafkas and kafkas[id].name == name:
            counts[id] = max(counts.get(id, 0), index + 1)
    imported = {}
    for id, count in counts.items():
        name = kafkas[id].name
        record = _record(name, count, id, config, kafkas[id])
        if metadata.get(PREFIX + name) != json.dumps(record).encode():
            imported[name] = record
    return imported


def rename_stray_partitions(topics: Topics, logs: LogManager, deleted: Mapping[bytes, str]) -> None:
    """Rename folders without a topic (``…-stray``, as Kafka), so that no new topic opens them.

    Folders of `deleted` topics (names by id) are deleted: a crash interrupted that. So are those of
    partitions of which other brokers have the replicas now. Others are kept, because the store may
    be older than the logs.
    """
    for (name, index), folder in logs.partition_folders().items():
        if name in METADATA_TOPICS:
            continue
        topic = topics.find(name)
        if topic is None or index >= len(topic.partitions) or not is_meant(folder.topic_id, topic.id):
            if folder.topic_id in deleted or (folder.topic_id is None and name in deleted.values()):
                logs.delete(name, index)
                continue
            new_name = logs.rename_to_stray(name, index)
            events.STRAY_FOLDER_RENAMED.log(
                logger,
                "folder %s belongs to no topic in the metadata store: renamed to %s",
                folder=folder.path,
                new_name=new_name,
            )
        elif not topic.partitions[index].has_replica:
            logs.delete(name, index)


def _record(topic: str, count: int, id: bytes, config: Config, kafkas: KafkaTopic | None) -> dict[str, object]:
    if topic in PARTITION_COUNTS and kafkas is None:
        # the count maps ids to partitions; unused partitions may have no folder
        count = max(count, config[PARTITION_COUNTS[topic]])
    if topic == SHARE_TOPIC and kafkas is None:
        configs = CONFIG_OF_SHARE_STATE
    elif kafkas is None:
        configs = CONFIG_OF_INTERNAL if topic in INTERNAL_TOPICS else _retention_unknown(topic, config)
    else:
        count = max(count, kafkas.count)
        configs = {name: value for name, value in kafkas.configs.items() if _is_known(topic, name, value, config)}
    return {"id": uuid_text(id), "partitions": count, "configs": configs}


def _retention_unknown(topic: str, config: Config) -> dict[str, str]:
    """Return the settings of a topic of which only folders remain: it may have been compacted or
    kept.

    Nothing of it is deleted, unless the broker's own settings limit retention.
    """
    if any(config.is_set(name) for name in RETENTIONS):
        return {}
    events.IMPORT_SETTINGS_UNKNOWN.log(
        logger,
        "topic %s: unknown settings, so all records are kept; to change that set log.retention.ms before the import",
        topic=topic,
    )
    return KEEP_ALL


def _is_known(topic: str, name: str, value: str, config: Config) -> bool:
    try:
        config.for_topic({name: value})
    except SettingError as error:
        events.IMPORT_SETTING_IGNORED.log(
            logger, "topic %s: a setting of Kafka's is ignored: %s", topic=topic, error=error
        )
        return False
    return True
