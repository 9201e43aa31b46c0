"""The record of a topic in the tier, `topic.json`: what `kqueue tier recover` makes it again from.

Written when the topic becomes tiered, and when its partitions or settings change. Without it the
segments are still there, and recovery has to guess the settings.

A deletion has two phases. First the record says that the topic is deleted; then the objects of its
partitions are deleted; the record goes last. A crash between them leaves a record that says what is
left to do, and no tool takes the topic for a living one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kqueue.base.errors import InvalidTopic
from kqueue.base.names import check_topic, parse_uuid, uuid_text
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.json_document import decode_document, encode_document
from kqueue.tier.formats.keys import TOPIC_RECORD, topic_prefix

PARTITIONS_MAX = 1_000_000
REPLICATION_FACTOR_MAX = 32_767
SETTINGS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic.

    Attributes:
        topic_id: 16 bytes.
        partitions: their number.
        replication_factor: replicas of each partition, when the record was written.
        configs: the topic's own settings, as text.
        created_ms: when the first record was written, wall clock in ms since 1970. Of two topics of
            one name the later one counts.
        deleted_ms: when the deletion began, ms since 1970; None: the topic exists.
        sequence: counts the changes, so that no two versions of the object are equal.
    """

    topic: str
    topic_id: bytes
    partitions: int
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    deleted_ms: int | None = None
    sequence: int = 0

    @property
    def key(self) -> str:
        """The key of the object."""
        return topic_record_key(self.topic, self.topic_id)

    @property
    def is_deleted(self) -> bool:
        """Whether the deletion of the topic has begun."""
        return self.deleted_ms is not None

    def next(self, **changes: Any) -> TopicRecord:
        """Return the record after a change."""
        return replace(self, sequence=self.sequence + 1, **changes)


def topic_record_key(topic: str, topic_id: bytes) -> str:
    """Return the key of the record of a topic."""
    return f"{topic_prefix(topic, topic_id)}/{TOPIC_RECORD}"


def encode_topic_record(record: TopicRecord) -> bytes:
    """Return the bytes of `topic.json`."""
    content: dict[str, Any] = {
        "topic": record.topic,
        "topic_id": uuid_text(record.topic_id),
        "partitions": record.partitions,
        "replication_factor": record.replication_factor,
        "configs": dict(record.configs),
        "created_ms": record.created_ms,
        "sequence": record.sequence,
    }
    if record.deleted_ms is not None:
        content["deleted_ms"] = record.deleted_ms
    return encode_document(content)


def decode_topic_record(data: bytes, topic: str, topic_id: bytes) -> TopicRecord:
    """Return the record in the object of this topic.

    Raises: TierCorrupt: it is damaged, or that of another topic.
    """
    name = f"the record of topic {topic}, id {uuid_text(topic_id)}"
    fields = decode_document(data, name)
    try:
        owner = check_topic(fields.text("topic")), parse_uuid(fields.text("topic_id"))
    except (ValueError, InvalidTopic) as error:
        raise TierCorrupt(f"{name}: {error}") from None
    if owner != (topic, topic_id):
        raise TierCorrupt(f"{name} is that of topic {owner[0]}, id {uuid_text(owner[1])}")
    return TopicRecord(
        topic,
        topic_id,
        fields.number("partitions", minimum=1, maximum=PARTITIONS_MAX),
        fields.number("replication_factor", minimum=1, maximum=REPLICATION_FACTOR_MAX),
        fields.texts("configs", maximum=SETTINGS_MAX),
        fields.number("created_ms"),
        fields.number("deleted_ms") if "deleted_ms" in fields else None,
        fields.number("sequence"),
    )
