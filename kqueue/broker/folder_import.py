"""Data folders that Kafka has used, or whose metadata store is new: their topics are taken over as
they stand.

Kafka and kqueue may use one folder in turn. Whenever Kafka has been there in between, which its own
metadata log tells, what it did to topics is followed before anything is served. What kqueue alone
has made stays, but Kafka will not know of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kqueue.base.errors import SettingError, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, uuid_text
from kqueue.base.settings import Config
from kqueue.broker.kafka_metadata import METADATA_TOPIC, KafkaTopic, log_fingerprint, read_topics
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.broker.producer_ids import KEY as PRODUCER_IDS_KEY
from kqueue.broker.topics import OFFSETS_TOPIC, PREFIX, Topics
from kqueue.log.folders.data_folder import is_meant
from kqueue.log.manager import LogManager

logger = logging.getLogger("kqueue.broker")
PRODUCER_ID_AFTER_ADOPTION = 1 << 40
ADOPTED_KEY = "/adopted"
EPOCH_KEY = "/leader_epoch"
NO_TOPICS = {METADATA_TOPIC}
"""Logs that Kafka keeps beside its topics: neither served nor touched, so that Kafka finds them
again.
"""
CONFIG_OF_INTERNAL = {"cleanup.policy": "compact", "compression.type": "producer"}
KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}
RETENTIONS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes")
NOBODY = "none"


def import_folders(metadata: MetadataCache, logs: LogManager, config: Config) -> None:
    """Fill a new store from the partition folders; bring one that was filled before up to what
    Kafka has done since.

    Of topics that are new to the store, settings come from Kafka's metadata, where there is one;
    the leader epoch goes on from the highest that a log has seen; producer ids start far above any
    that are in the logs. Raises StorageFailed.
    """
    stored = metadata.get(ADOPTED_KEY)
    before = json.loads(stored) if stored is not None else {}
    place = logs.location_of(METADATA_TOPIC, 0)
    mark = log_fingerprint(*place) if place is not None else NOBODY
    if stored is not None and before.get("mark", NOBODY) == mark:
        return
    if logs.offline:
        offline = "; ".join(str(folder.error) for folder in logs.offline)
        raise StorageFailed(f"topics can't be taken over as long as a data folder is offline: {offline}")
    kafkas = read_topics(*place).by_id if place is not None else {}
    ids = [uuid_text(id) for id in kafkas]
    puts: dict[str, bytes | None] = {ADOPTED_KEY: json.dumps({"mark": mark, "topics": ids}).encode()}
    gone = set(before.get("topics", [])) - set(ids)
    for name, value in metadata.under(PREFIX).items():
        if json.loads(value)["id"] in gone:
            puts[PREFIX + name] = None
    taken = (
        _topics_of_folders(logs, config, kafkas) if stored is None else _topics_of_kafka(metadata, logs, config, kafkas)
    )
    if taken or gone:
        logger.warning("the data folder was used without us: took over %d topics as their folders stand", len(taken))
        puts[EPOCH_KEY] = json.dumps(
            max(logs.highest_epoch() + 1, json.loads(metadata.get(EPOCH_KEY) or b"0"))
        ).encode()
    if taken and metadata.get(PRODUCER_IDS_KEY) is None:
        puts[PRODUCER_IDS_KEY] = json.dumps({"next": PRODUCER_ID_AFTER_ADOPTION}).encode()
    metadata.commit_now(puts | {PREFIX + name: json.dumps(record).encode() for name, record in taken.items()})


def _topics_of_folders(
    logs: LogManager, config: Config, kafkas: Mapping[bytes, KafkaTopic]
) -> dict[str, dict[str, object]]:
    """Every topic that has a folder, whether Kafka's metadata knows it or not."""
    found = {key: folder for key, folder in logs.found().items() if key[0] not in NO_TOPICS}
    counts: dict[str, int] = {}
    for topic, index in found:
        counts[topic] = max(counts.get(topic, 0), index + 1)
    taken = {}
    for topic, count in counts.items():
        id = next((found[key].topic_id for key in sorted(found) if key[0] == topic and found[key].topic_id), None)
        taken[topic] = _record(topic, count, id or logs.new_topic_id(), config, kafkas.get(id) if id else None)
    return taken


def _topics_of_kafka(
    metadata: MetadataCache, logs: LogManager, config: Config, kafkas: Mapping[bytes, KafkaTopic]
) -> dict[str, dict[str, object]]:
    """The topics of Kafka's metadata that have a folder here, where the store does not have them
    just so.
    """
    counts: dict[bytes, int] = {}
    for (name, index), folder in logs.found().items():
        id = folder.topic_id
        if id is not None and id in kafkas and kafkas[id].name == name:
            counts[id] = max(counts.get(id, 0), index + 1)
    taken = {}
    for id, count in counts.items():
        name = kafkas[id].name
        record = _record(name, count, id, config, kafkas[id])
        if metadata.get(PREFIX + name) != json.dumps(record).encode():
            taken[name] = record
    return taken


def rename_stray_partitions(topics: Topics, logs: LogManager, deleted: Mapping[bytes, str]) -> None:
    """Rename folders that belong to no topic (``…-stray``, as Kafka does), so that no new topic of
    the same name finds them.

    Folders of `deleted` topics (names by id) are removed: a crash cut their deletion short. Others
    may come of a store older than the logs, so they are kept.
    """
    for (name, index), folder in logs.found().items():
        if name in NO_TOPICS:
            continue
        topic = topics.find(name)
        if topic is None or index >= len(topic.partitions) or not is_meant(folder.topic_id, topic.id):
            if folder.topic_id in deleted or (folder.topic_id is None and name in deleted.values()):
                logs.delete(name, index)
                continue
            aside = logs.rename_to_stray(name, index)
            logger.warning(
                "folder %s belongs to no topic that the metadata store knows: set aside as %s", folder.path, aside
            )


def _record(topic: str, count: int, id: bytes, config: Config, kafkas: KafkaTopic | None) -> dict[str, object]:
    if topic == OFFSETS_TOPIC and kafkas is None:
        # a group's partition depends on the number of partitions, folders of unused ones may be
        # missing
        count = max(count, config["offsets.topic.num.partitions"])
    if kafkas is None:
        configs = CONFIG_OF_INTERNAL if topic in INTERNAL_TOPICS else _unknown(topic, config)
    else:
        count = max(count, kafkas.count)
        configs = {name: value for name, value in kafkas.configs.items() if _is_understood(topic, name, value, config)}
    return {"id": uuid_text(id), "partitions": count, "configs": configs}


def _unknown(topic: str, config: Config) -> dict[str, str]:
    """The settings of a topic of which only the folders are left: it may have kept its records for
    ever, or by their keys.

    So nothing of it is dropped, unless the broker's own settings say how long records are kept.
    """
    if any(config.is_set(name) for name in RETENTIONS):
        return {}
    logger.warning(
        "topic %s: its settings are not known, so all of it is kept; set log.retention.ms before it is taken over if not",
        topic,
    )
    return KEEP_ALL


def _is_understood(topic: str, name: str, value: str, config: Config) -> bool:
    try:
        config.for_topic({name: value})
    except SettingError as error:
        logger.warning("topic %s has a setting of Kafka's that is left out: %s", topic, error)
        return False
    return True
