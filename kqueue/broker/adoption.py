"""Data folders whose metadata store is new: Kafka's own, or one whose store was lost. Their topics are taken over as they stand."""

from __future__ import annotations

import json
import logging

from kqueue.base.errors import StorageFailed
from kqueue.base.names import uuid_text
from kqueue.base.settings import Config
from kqueue.broker.metadata import Metadata
from kqueue.broker.producer_ids import KEY as PRODUCER_IDS_KEY
from kqueue.broker.topics import OFFSETS_TOPIC, PREFIX, Topics
from kqueue.log.folders import is_meant
from kqueue.log.manager import LogManager

logger = logging.getLogger("kqueue.broker")
PRODUCER_ID_AFTER_ADOPTION = 1 << 40
ADOPTED_KEY = "/adopted"
NO_TOPICS = {"__cluster_metadata"}
"""Logs that Kafka keeps beside its topics: neither served nor touched, so that Kafka finds them again."""
CONFIG_OF_INTERNAL = {"cleanup.policy": "compact", "compression.type": "producer"}


def adopt(metadata: Metadata, logs: LogManager, config: Config) -> None:
    """Fill a new store from the partition folders; a store that was filled before is left as it is.

    The leader epoch goes on from the highest that a log has seen, and producer ids start far above any that are in the logs.
    Raises StorageFailed.
    """
    if metadata.get(ADOPTED_KEY) is not None:
        return
    if logs.offline:
        offline = "; ".join(str(folder.error) for folder in logs.offline)
        raise StorageFailed(f"the metadata store is new, and topics can't be taken over as long as a data folder is offline: {offline}")
    puts = {ADOPTED_KEY: b"{}"}
    found = {key: folder for key, folder in logs.found().items() if key[0] not in NO_TOPICS}
    counts: dict[str, int] = {}
    for topic, index in found:
        counts[topic] = max(counts.get(topic, 0), index + 1)
    for topic, count in counts.items():
        id = next((found[key].topic_id for key in sorted(found) if key[0] == topic and found[key].topic_id), None)
        puts[PREFIX + topic] = json.dumps(_record(topic, count, uuid_text(id or logs.new_id()), config)).encode()
    if counts:
        logger.warning("the metadata store is new, the data folder is not: took over %d topics as their folders stand", len(counts))
        puts["/leader_epoch"] = json.dumps(logs.highest_epoch() + 1).encode()
        puts[PRODUCER_IDS_KEY] = json.dumps({"next": PRODUCER_ID_AFTER_ADOPTION}).encode()
    metadata.commit_now(puts)


def set_strays_aside(topics: Topics, logs: LogManager) -> None:
    """Rename folders that belong to no topic (``…-stray``, as Kafka does), so that no new topic of the same name finds them.

    They come of a deletion that a crash cut short, or of a store older than the logs; as nobody can tell which, nothing is deleted.
    """
    for (name, index), folder in logs.found().items():
        if name in NO_TOPICS:
            continue
        topic = topics.find(name)
        if topic is None or index >= len(topic.partitions) or not is_meant(folder.topic_id, topic.id):
            aside = logs.set_aside(name, index)
            logger.warning("folder %s belongs to no topic that the metadata store knows: set aside as %s", folder.path, aside)


def _record(topic: str, count: int, id: str, config: Config) -> dict[str, object]:
    if topic == OFFSETS_TOPIC:
        # a group's partition depends on the number of partitions, folders of unused ones may be missing
        count = max(count, config["offsets.topic.num.partitions"])
    return {"id": id, "partitions": count, "configs": CONFIG_OF_INTERNAL if topic == OFFSETS_TOPIC else {}}
