"""The effective settings of topics and brokers, from DescribeConfigs."""

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
    """Return the effective values by topic, without settings that the broker does not report."""
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = list(settings)
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, keys) for topic in topics]
    values: dict[str, dict[str, str]] = {}
    for start in range(0, len(resources), TOPICS_AT_ONCE):
        values.update(_describe(client, resources[start : start + TOPICS_AT_ONCE], "topic"))
    return values


def broker_settings(client: KafkaAdminClient, bootstrap: str, settings: Iterable[str]) -> dict[int, dict[str, str]]:
    """Return the effective values by broker id, without settings that a broker omits."""
    from kafka.admin import ConfigResource, ConfigResourceType

    keys = list(settings)
    ids = cluster_metadata(bootstrap).brokers
    values = _describe(client, [ConfigResource(ConfigResourceType.BROKER, str(id), keys) for id in ids], "broker")
    return {int(id): settings for id, settings in values.items()}


def _describe(client: KafkaAdminClient, resources: list[Any], kind: str) -> dict[str, dict[str, str]]:
    from kafka.errors import IncompatibleBrokerVersion

    try:
        response = client.describe_configs(resources, config_filter="all")
    except IncompatibleBrokerVersion:
        return {}
    return {
        name: {key: row["value"] for key, row in rows.items() if row["value"]}
        for name, rows in response.get(kind, {}).items()
    }
