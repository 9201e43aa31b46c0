"""Creates the topic of the schemas, or checks that an existing one keeps every schema."""

from __future__ import annotations

import logging
from dataclasses import replace

from kqueue.base import events
from kqueue.base.config_resources import ResourceType
from kqueue.client import Client, ClientOptions, ClusterMetadata, NewTopic, TopicMetadata
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.schema_registry.schema_log import StoreUnavailable

REPLICAS_WANTED = 3
CLEANUP_POLICY = "cleanup.policy"
COMPACT = "compact"
MISSING_MS = 1
"""A topic that is not there is created: no retry is worth its time."""
ABSENT = ("UNKNOWN_TOPIC_OR_PARTITION",)
logger = logging.getLogger("kqueue.schema_registry")


def prepare_topic(options: ClientOptions, name: str) -> ClusterMetadata:
    """Return the metadata of the topic of the schemas, and of its cluster. Create the topic if it
    does not exist: compacted, with one partition, and a replica on each broker, at most three.

    Raises: StoreUnavailable: the topic has other partitions or another cleanup policy, with which
        schemas would be lost. ClientError: no broker answers, or it refuses.
    """
    with Client(replace(options, missing_topic_ms=MISSING_MS)) as client:
        metadata = _existing(client, name) or _created(client, name)
        _check(client, metadata.topics[name])
        return metadata


def _check(client: Client, topic: TopicMetadata) -> None:
    name = topic.name
    if len(topic.partitions) != 1:
        raise StoreUnavailable(
            f"topic {name!r} has {len(topic.partitions)} partitions; schemas need one order, so expected 1: "
            "name another topic"
        )
    try:
        policy = client.configs(ResourceType.TOPIC, [name], [CLEANUP_POLICY])[name][CLEANUP_POLICY].value
    except (BrokerRefused, KeyError) as error:
        events.REGISTRY_TOPIC_UNCHECKED.log(
            logger, "the settings of topic %s can't be read: %s", topic=name, error=error
        )
        return
    if policy != COMPACT:
        raise StoreUnavailable(
            f"topic {name!r} has cleanup.policy={policy}, with which Kafka deletes schemas; expected compact: "
            f"kqueue configs alter topic {name} cleanup.policy=compact"
        )


def _existing(client: Client, name: str) -> ClusterMetadata | None:
    try:
        return client.metadata([name])
    except BrokerRefused as error:
        if error.code_name in ABSENT:
            return None
        raise


def _created(client: Client, name: str) -> ClusterMetadata:
    replicas = min(REPLICAS_WANTED, len(client.metadata([]).brokers))
    try:
        client.create_topics([NewTopic(name, 1, replicas, {CLEANUP_POLICY: COMPACT})])
        events.REGISTRY_TOPIC_CREATED.log(
            logger, "created topic %s with replication factor %s", topic=name, replicas=replicas
        )
    except ClientError as error:
        if _existing(client, name) is None:  # else another registry was first, or only the answer was lost
            raise
        logger.debug("topic %s was created meanwhile: %s", name, error)
    return client.metadata([name])
