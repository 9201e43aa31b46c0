"""Which topics and brokers use what, as a broker tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.cli.connect import admin

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

TOPICS_AT_ONCE = 500
UNKNOWN_CODECS = {"producer"}  # as the producer sent it: whatever that is
OTHER_NAMES = {"uncompressed": "none"}
TOPIC_SETTINGS = {"compression.type": "codec", "cleanup.policy": "cleanup-policy", "kqueue.partitioner": "partitioner"}
BROKER_SETTINGS = {"kqueue.storage": "storage", "kqueue.metadata": "metadata-store", "kqueue.codecs": "codec"}
Users = dict[str, dict[str, set[Any]]]


class Usage(NamedTuple):
    """topics, brokers: names of topics and ids of brokers, by kind and then by the plugin's name as they write it.
    preferred: the codecs that the broker's settings prefer."""

    topics: Mapping[str, dict[str, set[str]]]
    brokers: Mapping[str, dict[str, set[int]]]
    preferred: frozenset[str]


NOBODY = Usage({}, {}, frozenset())


def ask(bootstrap: str) -> Usage:
    """What the broker at `bootstrap` says. Raises ClickException: nobody answers there, in a sentence."""
    with admin(bootstrap) as client:
        names = sorted(topic["name"] for topic in client.describe_topics())
        topics: Users = defaultdict(lambda: defaultdict(set))
        for start in range(0, len(names), TOPICS_AT_ONCE):
            for name, values in topic_settings(client, names[start : start + TOPICS_AT_ONCE], TOPIC_SETTINGS).items():
                _note(topics, TOPIC_SETTINGS, values, name)
        brokers: Users = defaultdict(lambda: defaultdict(set))
        for id, values in _broker_settings(client).items():
            _note(brokers, BROKER_SETTINGS, values, id)
    return Usage(topics, brokers, frozenset(brokers["codec"]))


def topic_settings(client: KafkaAdminClient, names: Iterable[str], settings: Iterable[str]) -> dict[str, dict[str, str]]:
    """The values of these settings in force, by topic. What a broker does not know or tell is left out."""
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = list(settings)
    return _values(client, [ConfigResource(ConfigResourceType.TOPIC, name, keys) for name in names]).get("topic", {})


def _broker_settings(client: KafkaAdminClient) -> dict[int, dict[str, str]]:
    from kafka.admin import ConfigResource, ConfigResourceType

    # the first key is DescribeCluster's; brokers before Kafka 2.8 answer in the words of Metadata
    ids = [broker.get("broker_id", broker.get("node_id")) for broker in client.describe_cluster()["brokers"]]
    found = _values(client, [ConfigResource(ConfigResourceType.BROKER, str(id), list(BROKER_SETTINGS)) for id in ids])
    return {int(id): _with_store(values) for id, values in found.get("broker", {}).items()}


def _with_store(values: dict[str, str]) -> dict[str, str]:
    """Where no metadata store is named, the storage decides."""
    storage = values.get("kqueue.storage")
    return {"kqueue.metadata": "memory" if storage == "memory" else "sqlite", **values} if storage else values


def _values(client: KafkaAdminClient, resources: list[Any]) -> dict[str, dict[str, dict[str, str]]]:
    from kafka.errors import IncompatibleBrokerVersion

    if not resources:
        return {}
    try:
        answer = client.describe_configs(resources, config_filter="all")
    except IncompatibleBrokerVersion:
        return {}
    return {
        kind: {name: {key: row["value"] for key, row in rows.items() if row["value"]} for name, rows in found.items()}
        for kind, found in answer.items()
    }


def _note(users: Users, settings: Mapping[str, str], values: Mapping[str, str], user: object) -> None:
    for setting, text in values.items():
        for name in filter(None, (part.strip() for part in text.split(","))):
            if name not in UNKNOWN_CODECS:
                users[settings[setting]][OTHER_NAMES.get(name, name)].add(user)
