"""The two forms of a topic's record: a single broker stores the number of partitions, a cluster the
registration of each (`replication.registrations`).

A store may go from one to the other with its broker: the cluster's first member takes over the
topics of the single broker whose folders it has, and a single broker those of a cluster that only
it has replicas of. Both keep ids, settings and records; leader epochs go on above all before.
Durability: one commit at the start, before anything is served. A crash leaves it to the next start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.errors import Conflict, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS
from kqueue.base.text import counted
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.replicas.sole_epoch import EPOCH_KEY
from kqueue.broker.topics.deleted_topics import deleted_topics
from kqueue.broker.topics.folder_import import IMPORT_KEY, METADATA_TOPICS, NO_LOG
from kqueue.broker.topics.topics import PREFIX
from kqueue.log.folders.data_folder import is_meant
from kqueue.log.manager import LogManager
from kqueue.replication.config import CLUSTER_STORE, SQLITE_STORE
from kqueue.replication.registrations import TopicRegistration, sole_registration

logger = logging.getLogger("kqueue.broker")


def to_numbers(metadata: MetadataCache, node_id: int) -> None:
    """Turn the records of a cluster into those of a single broker, if it has all replicas.

    Raises: StorageFailed: another broker has a replica.
    """
    registrations = _records(metadata, node_id, is_number=False)
    if not registrations:
        return
    epoch = _stored_epoch(metadata)
    others: dict[str, set[int]] = {}
    for name, topic in registrations.items():
        for partition in topic.partitions:
            epoch = max(epoch, partition.leader_epoch + 1)
            if partition.replicas != (node_id,):
                others.setdefault(name, set()).update(partition.replicas)
    if others:
        name, nodes = next(iter(others.items()))
        all_nodes = set().union(*others.values())
        start = f"this broker ({node_id}) with kqueue.cluster.store"
        if min(all_nodes) >= node_id:  # a data folder of worker 0 has such a store
            start = f"as many workers as before (kqueue serve --workers {max(all_nodes) - node_id + 1}), or {start}"
        raise StorageFailed(
            f"topic {name} has replicas on the brokers {', '.join(map(str, sorted(nodes)))}: the metadata are a "
            f"cluster's. Start {start}, or reassign all partitions to it first"
        )
    puts: dict[str, bytes | None] = {PREFIX + name: topic.to_number_bytes() for name, topic in registrations.items()}
    puts[EPOCH_KEY] = json.dumps(epoch).encode()
    if metadata.get(IMPORT_KEY) is None:  # else the folders would count as another broker's
        puts[IMPORT_KEY] = json.dumps({"mark": NO_LOG, "topics": []}).encode()
    metadata.commit_now(puts)
    events.METADATA_TAKEN_OVER.log(
        logger, "took over %s of a cluster as a single broker", topics=counted(len(registrations), "topic")
    )


def to_registrations(metadata: MetadataCache, logs: LogManager, node_id: int) -> None:
    """Turn the records of a single broker into those of a cluster, where this member has its
    folders.

    Raises: StorageFailed: it has not.
    """
    while registrations := _records(metadata, node_id, is_number=True):
        has_folders = any(
            key[0] in registrations and is_meant(folder.topic_id, registrations[key[0]].id)
            for key, folder in logs.partition_folders().items()
        )
        visible = sorted(registrations.keys() - INTERNAL_TOPICS)
        if visible and not has_folders:
            raise StorageFailed(
                f"the metadata are a single broker's, with {counted(len(visible), 'topic')} ({visible[0]}, ...) "
                f"whose partitions are not in the data folders of this broker ({node_id}): start the broker with those "
                "data folders first"
            )
        try:
            metadata.commit_now({PREFIX + name: topic.to_bytes() for name, topic in registrations.items()})
        except Conflict:
            metadata.load()
            continue
        events.METADATA_TAKEN_OVER.log(
            logger,
            "took over %s of a single broker into the cluster: broker %d has their replicas",
            topics=counted(len(registrations), "topic"),
            broker=node_id,
        )


def check_topics_known(metadata: MetadataCache, logs: LogManager) -> None:
    """Refuse the store of a cluster that has no topic, if this member has partitions: the store is
    a new one, or that of others. Its partitions would become strays.

    Raises: StorageFailed.
    """
    if metadata.with_prefix(PREFIX):
        return
    deleted = deleted_topics(metadata)
    folders = [folder for (name, _), folder in logs.partition_folders().items() if name not in METADATA_TOPICS]
    unknown = sorted(folder.path for folder in folders if folder.topic_id not in deleted)
    if unknown:
        from kqueue.metadata.sqlite import FILE_NAME  # on use: a broker in memory does not need it

        raise StorageFailed(
            f"the metadata store has no topics, and the data folders have {counted(len(unknown), 'partition')} "
            f"({unknown[0]}, ...): check {CLUSTER_STORE}. To begin a cluster with the topics of a single broker, "
            f"name the store of its own data folder ({SQLITE_STORE}FOLDER/{FILE_NAME})"
        )


def _records(metadata: MetadataCache, node_id: int, *, is_number: bool) -> Mapping[str, TopicRegistration]:
    """Return the topics whose record has one form, numbers with a leader epoch above all before."""
    sole = sole_registration(node_id, _stored_epoch(metadata) + 1)
    topics = {}
    for name, record in metadata.with_prefix(PREFIX).items():
        if _is_number(record) is is_number:
            topics[name] = TopicRegistration.from_bytes(name, record, sole)
    return topics


def _is_number(record: bytes) -> bool:
    try:
        return isinstance(json.loads(record)["partitions"], int)
    except (ValueError, KeyError, TypeError):
        return False  # damaged: whoever reads it says so


def _stored_epoch(metadata: MetadataCache) -> int:
    return int(json.loads(metadata.get(EPOCH_KEY) or b"0"))
