"""Topics that a tier has, put into a metadata store that lost them, or never had them.

Topics keep their ids and settings. Leader epochs begin above those in the tier, so that a leader
may write there (`tier.manifest`). Logs are empty: each leader goes on where the tier ends.

Producer ids continue above those of the tier. A producer that got an id that the tier knows would
be taken for the earlier one, and its first records for doubles. They continue at a multiple of
`PRODUCER_ID_AFTER_IMPORT`, so that the ids that this cluster itself has given can be told: those
from the last multiple on.

Into a cluster: its brokers run, and learn of the topics as of any that one of them creates. Into
the data folder of a single broker: it is stopped. Durability: one commit for each topic, after the
commit of epochs and ids. A crash leaves the rest to the next call.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kqueue.base.errors import KqueueError
from kqueue.base.names import collision_key, uuid_text
from kqueue.broker.cluster.registration import CLUSTER_KEY, FORMAT
from kqueue.broker.metadata.producer_ids import KEY as PRODUCER_IDS_KEY
from kqueue.broker.replicas.sole_epoch import EPOCH_KEY
from kqueue.broker.topics.folder_import import IMPORT_KEY, NO_LOG, PRODUCER_ID_AFTER_IMPORT
from kqueue.metadata.store import MetadataStore, Snapshot
from kqueue.replication.placement import new_partition, place_replicas
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    BrokerRegistration,
    TopicRegistration,
    sole_registration,
)

CHANGED_ONCE = 1
"""Partition epoch: a leader of a partition that never changed takes it for new, and does not ask
the tier (`broker.tier.adoptions`). Its first records would contradict those there.
"""


class RecoveryRefused(KqueueError):
    """The metadata store can't take the topics; nothing was changed."""


class RecoveredTopic(NamedTuple):
    """A topic to make again.

    configs: its own settings. leader_epochs: of each partition, the first that is above the tier's.
    replication_factor: replicas of each partition.
    """

    name: str
    id: bytes
    configs: Mapping[str, str]
    leader_epochs: Sequence[int]
    replication_factor: int


class ProducerIdRange(NamedTuple):
    """The lowest and the highest producer id that the tier knows."""

    lowest: int
    highest: int


def cluster_id_of(store: MetadataStore) -> str | None:
    """Return the id of the cluster whose store this is; None: it is new, or a single broker's.

    Raises: StorageFailed. RecoveryRefused: it can't be read.
    """
    entry = store.read(CLUSTER_KEY).get(CLUSTER_KEY)
    if entry is None:
        return None
    try:
        return str(json.loads(entry.value)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecoveryRefused(f"the metadata store is damaged: {CLUSTER_KEY} can't be read: {error!r}") from error


def found_cluster(store: MetadataStore, cluster_id: str) -> None:
    """Give a new store the id of a cluster, whose brokers can join then.

    Raises: Conflict: a broker was first. StorageFailed.
    """
    store.commit({CLUSTER_KEY: None}, {CLUSTER_KEY: json.dumps({"id": cluster_id, "format": FORMAT}).encode()}, ())


def missing_topics(store: MetadataStore, topics: Sequence[RecoveredTopic]) -> tuple[list[RecoveredTopic], list[str]]:
    """Return the topics that the store lacks, and why others can't be made.

    One that is there with the same id was made by an earlier call: it is in neither list.
    Raises: StorageFailed.
    """
    present = _topics(store)
    collisions = {collision_key(name): name for name in present}
    missing, refusals = [], []
    for topic in topics:
        other = collisions.get(collision_key(topic.name))
        if other is None:
            missing.append(topic)
        elif other != topic.name:
            refusals.append(f"topic {topic.name} collides with {other}: '.' and '_' are the same in metric names")
        elif present[topic.name] != uuid_text(topic.id):
            refusals.append(
                f"topic {topic.name} exists already with id {present[topic.name]}; that in the tier has "
                f"{uuid_text(topic.id)}: delete the new one first"
            )
    return missing, refusals


def recover_into_cluster(
    store: MetadataStore, topics: Sequence[RecoveredTopic], producer_ids: ProducerIdRange | None, rng: random.Random
) -> None:
    """Make topics in a cluster whose brokers run.

    Args: topics: as `missing_topics` returned them. producer_ids: None: the tier has none.
    Raises: RecoveryRefused. InvalidReplicationFactor: fewer brokers. Conflict: somebody else has
        created a topic of the name meanwhile; further ones are not made. StorageFailed.
    """
    brokers = {
        broker.id: broker
        for broker in (
            BrokerRegistration.from_bytes(int(key.removeprefix(BROKERS_PREFIX)), entry.value)
            for key, entry in store.read(BROKERS_PREFIX).items()
        )
    }
    if not any(broker.is_active for broker in brokers.values()):
        raise RecoveryRefused("no broker of the cluster runs: start the brokers, then recover the topics")
    records = {}
    for topic in topics:
        placed = place_replicas(brokers, len(topic.leader_epochs), topic.replication_factor, rng)
        partitions = tuple(
            new_partition(replicas, brokers)._replace(leader_epoch=epoch, partition_epoch=CHANGED_ONCE)
            for replicas, epoch in zip(placed, topic.leader_epochs, strict=True)
        )
        records[topic.name] = TopicRegistration(topic.id, topic.configs, partitions).to_bytes()
    _commit(store, {}, records, producer_ids)


def recover_into_single_broker(
    store: MetadataStore, topics: Sequence[RecoveredTopic], producer_ids: ProducerIdRange | None
) -> None:
    """Make topics in the store of a single broker, which is stopped.

    Raises: RecoveryRefused; Conflict; StorageFailed: as `recover_into_cluster`.
    """
    if cluster_id_of(store) is not None or store.read(BROKERS_PREFIX):
        raise RecoveryRefused("the store is that of a cluster: start its brokers, and name it as the cluster's store")
    entry = store.read(EPOCH_KEY).get(EPOCH_KEY)
    stored = int(json.loads(entry.value)) if entry is not None else 0
    # A single broker has one epoch for all partitions.
    epoch = max([stored, *(epoch for topic in topics for epoch in topic.leader_epochs)])
    first = {EPOCH_KEY: json.dumps(epoch).encode()}
    if IMPORT_KEY not in store.read(IMPORT_KEY):  # else its folders would count as another broker's
        first[IMPORT_KEY] = json.dumps({"mark": NO_LOG, "topics": []}).encode()
    records = {
        topic.name: TopicRegistration(
            topic.id, topic.configs, (sole_registration(0, epoch),) * len(topic.leader_epochs)
        ).to_number_bytes()
        for topic in topics
    }
    _commit(store, first, records, producer_ids)


def _commit(
    store: MetadataStore, first: Mapping[str, bytes], records: Mapping[str, bytes], producer_ids: ProducerIdRange | None
) -> None:
    ids = store.read(PRODUCER_IDS_KEY)
    first = {**first, PRODUCER_IDS_KEY: _next_producer_ids(ids, producer_ids)}
    store.commit({PRODUCER_IDS_KEY: _version(ids, PRODUCER_IDS_KEY)}, first, ())
    for name, record in records.items():
        store.commit({TOPICS_PREFIX + name: None}, {TOPICS_PREFIX + name: record}, ())


def _next_producer_ids(ids: Snapshot, producer_ids: ProducerIdRange | None) -> bytes:
    entry = ids.get(PRODUCER_IDS_KEY)
    given = int(json.loads(entry.value)["next"]) if entry is not None else 0
    start = given // PRODUCER_ID_AFTER_IMPORT * PRODUCER_ID_AFTER_IMPORT
    if producer_ids is not None and start <= producer_ids.highest and producer_ids.lowest < given:
        raise RecoveryRefused(
            f"this cluster has given the producer ids {start} to {given - 1} already, and producers in the tier have "
            f"some of {producer_ids.lowest} to {producer_ids.highest}: records would be taken for doubles. Recover "
            "into a new cluster, before producers use it"
        )
    highest = -1 if producer_ids is None else producer_ids.highest
    above = (highest // PRODUCER_ID_AFTER_IMPORT + 1) * PRODUCER_ID_AFTER_IMPORT
    return json.dumps({"next": max(given, above, PRODUCER_ID_AFTER_IMPORT)}).encode()


def _version(snapshot: Snapshot, key: str) -> int | None:
    entry = snapshot.get(key)
    return None if entry is None else entry.version


def _topics(store: MetadataStore) -> dict[str, str]:
    """Return the id of each topic in the store, by name."""
    topics = {}
    for key, entry in store.read(TOPICS_PREFIX).items():
        try:
            topics[key.removeprefix(TOPICS_PREFIX)] = str(json.loads(entry.value)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecoveryRefused(f"the metadata store is damaged: {key} can't be read: {error!r}") from error
    return topics
