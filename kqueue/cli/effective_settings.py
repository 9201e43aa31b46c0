"""The settings of topics and brokers, as a broker tells them (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kqueue.cli.connect import cluster_metadata

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

TOPICS_AT_ONCE = 500


def topic_settings(
    client: KafkaAdminClient, topics: Iterable[str], settings: Iterable[str]
) -> dict[str, dict[str, str]]:
    """The values of these settings in force, by topic. What a broker does not know, or does not
    tell, is left out.
    """
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = list(settings)
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, keys) for topic in topics]
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(resources), TOPICS_AT_ONCE):
        found.update(_ask(client, resources[start : start + TOPICS_AT_ONCE], "topic"))
    return found


def broker_settings(client: KafkaAdminClient, bootstrap: str, settings: Iterable[str]) -> dict[int, dict[str, str]]:
    """The values of these settings in force, by broker id. What a broker does not know, or does not
    tell, is left out.
    """
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = list(settings)
    ids = cluster_metadata(bootstrap).brokers
    found = _ask(client, [ConfigResource(ConfigResourceType.BROKER, str(id), keys) for id in ids], "broker")
    return {int(id): values for id, values in found.items()}


def _ask(client: KafkaAdminClient, resources: list[Any], kind: str) -> dict[str, dict[str, str]]:
    from kafka.errors import IncompatibleBrokerVersion

    try:
        answer = client.describe_configs(resources, config_filter="all")
    except IncompatibleBrokerVersion:
        return {}
    return {
        name: {key: row["value"] for key, row in rows.items() if row["value"]}
        for name, rows in answer.get(kind, {}).items()
    }
