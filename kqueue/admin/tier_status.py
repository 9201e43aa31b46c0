"""Tiered storage as leaders of partitions see it: what is on their disks, and what is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kqueue.base.config_resources import ResourceType
from kqueue.client import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, Client, TopicMetadata, TopicPartition
from kqueue.client.errors import ClientError

REMOTE_ENABLE = "remote.storage.enable"
SYSTEM_ENABLE = "remote.log.storage.system.enable"
TIER_URL = "kqueue.tier.url"
TOPIC_SETTINGS = (
    REMOTE_ENABLE,
    "remote.log.copy.disable",
    "retention.ms",
    "retention.bytes",
    "local.retention.ms",
    "local.retention.bytes",
)
NO_LEADER = -1
_QUERIES = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, LATEST)


class PartitionTierStatus(NamedTuple):
    """One partition at its leader.

    leader: node id; NO_LEADER: it has none.
    log_start, local_start: first offset of the log, and of the leader's disk.
    tiered_end: exclusive end of what the leader knows to be in the tier; None: nothing.
    end: high watermark. error: why the offsets are unknown, which are None then; empty: they are
        known.
    """

    partition: TopicPartition
    leader: int
    log_start: int | None = None
    local_start: int | None = None
    tiered_end: int | None = None
    end: int | None = None
    error: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets that are not copied, those of the active segment among them; None: unknown."""
        if self.end is None or self.log_start is None:
            return None
        return self.end - max(self.tiered_end or 0, self.log_start)

    def as_json(self) -> dict[str, Any]:
        """Return the partition as JSON values."""
        topic, index = self.partition
        values = {name: value for name, value in self._asdict().items() if name not in ("partition", "error")}
        return {"topic": topic, "partition": index, **values, "lag": self.lag, "error": self.error or None}


def tiered_topics(client: Client, topics: Sequence[TopicMetadata]) -> dict[str, dict[str, str | None]]:
    """Return the settings of those of the topics that are tiered, by name. Raises: ClientError."""
    if not topics:
        return {}
    found = client.configs(ResourceType.TOPIC, [topic.name for topic in topics], TOPIC_SETTINGS)
    values = {name: {key: row.value for key, row in rows.items()} for name, rows in found.items()}
    return {name: rows for name, rows in values.items() if rows.get(REMOTE_ENABLE) == "true"}


def tier_urls(client: Client, node_ids: Sequence[int]) -> dict[int, str | None]:
    """Return the URL of the tier by broker; None: tiered storage is disabled there. Raises:
    ClientError.
    """
    found = client.configs(ResourceType.BROKER, map(str, node_ids), (SYSTEM_ENABLE, TIER_URL))
    urls: dict[int, str | None] = {}
    for node, rows in found.items():
        values = {key: row.value for key, row in rows.items()}
        urls[int(node)] = (values.get(TIER_URL) or "") if values.get(SYSTEM_ENABLE) == "true" else None
    return urls


def tier_status(client: Client, topics: Sequence[TopicMetadata]) -> list[PartitionTierStatus]:
    """Return all partitions of the topics, by topic and number.

    An error of one partition hides no other.
    """
    leaders = {
        TopicPartition(topic.name, index): partition.leader
        for topic in topics
        for index, partition in topic.partitions.items()
    }
    asked = [one for one, leader in leaders.items() if leader != NO_LEADER]
    errors: dict[TopicPartition, str] = {}
    offsets = {query: _offsets(client, asked, query, errors) for query in _QUERIES}
    return [_status(one, leaders[one], offsets, errors) for one in sorted(leaders)]


def _status(
    one: TopicPartition,
    leader: int,
    offsets: Mapping[int, Mapping[TopicPartition, int | None]],
    errors: Mapping[TopicPartition, str],
) -> PartitionTierStatus:
    if leader == NO_LEADER:
        return PartitionTierStatus(one, leader, error="it has no leader")
    if one in errors:
        return PartitionTierStatus(one, leader, error=errors[one])
    log_start, local_start, last_tiered, end = (offsets[query][one] for query in _QUERIES)
    tiered_end = None if last_tiered is None else last_tiered + 1
    return PartitionTierStatus(one, leader, log_start, local_start, tiered_end, end)


def _offsets(
    client: Client, asked: Sequence[TopicPartition], query: int, errors: dict[TopicPartition, str]
) -> dict[TopicPartition, int | None]:
    remaining = [one for one in asked if one not in errors]
    if not remaining:
        return {}
    try:
        found = client.offsets(dict.fromkeys(remaining, query))
    except ClientError as error:
        found = dict(error.done)
        failed: Mapping[TopicPartition, ClientError] = error.failed or {}
        errors.update({one: str(failed.get(one, error)) for one in remaining if one not in found})
    return {one: entry.offset for one, entry in found.items()}
