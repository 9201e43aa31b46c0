"""The topics of a tier, without a broker that knows them. No pyspark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kqueue.base.errors import InvalidTopic
from kqueue.base.names import check_topic, parse_uuid
from kqueue.tier.errors import ObjectNotFound
from kqueue.tier.formats.keys import TOPICS, topic_prefix
from kqueue.tier.formats.manifest_root import DOCUMENT_BYTES_MAX
from kqueue.tier.formats.topic_record import decode_topic_record, topic_record_key
from kqueue.tier.stores.contract import TierStore

PARTITION_DIGITS_MAX = 9


class TierTopic(NamedTuple):
    """A topic of a tier. topic_id: 16 bytes. partitions: their numbers, ascending."""

    name: str
    topic_id: bytes
    partitions: tuple[int, ...]


def topic_names(store: TierStore) -> list[str]:
    """Return the names of all topics that have objects, also of deleted ones. Raises: TierError."""
    return [name for name in store.list_folders(TOPICS) if _is_topic(name)]


def find_topic(store: TierStore, name: str) -> TierTopic | None:
    """Return the topic of this name that exists; None: there is none, or it is being deleted.

    Where a topic was deleted and created again both may have objects; the later one counts.
    Raises: TierError.
    """
    if not _is_topic(name):
        return None
    topics = [found for text in store.list_folders(f"{TOPICS}/{name}") if (found := _topic(store, name, text))]
    return max(topics, key=lambda one: one[0], default=(0, None))[1]


def _topic(store: TierStore, name: str, id_text: str) -> tuple[int, TierTopic] | None:
    """Return when a topic was created (ms since 1970; -1: unknown), and the topic; None: it is
    deleted, or its folder is none of a topic.
    """
    try:
        topic_id = parse_uuid(id_text)
    except ValueError:
        return None
    try:
        data = store.get(topic_record_key(name, topic_id), max_bytes=DOCUMENT_BYTES_MAX).body
    except ObjectNotFound:  # lost, or not written yet: the partitions are there
        numbers = _numbers(store.list_folders(topic_prefix(name, topic_id)))
        return (-1, TierTopic(name, topic_id, numbers)) if numbers else None
    record = decode_topic_record(data, name, topic_id)
    if record.is_deleted:
        return None
    return record.created_ms, TierTopic(name, topic_id, tuple(range(record.partitions)))


def _numbers(folders: Iterable[str]) -> tuple[int, ...]:
    return tuple(
        sorted(
            int(name)
            for name in folders
            if name.isascii() and name.isdecimal() and len(name) <= PARTITION_DIGITS_MAX and name == str(int(name))
        )
    )


def _is_topic(name: str) -> bool:
    try:
        check_topic(name)
    except InvalidTopic:
        return False
    return True
