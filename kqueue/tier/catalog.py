"""The topics and partitions that a tier has, found by listing it.

Of a topic that was deleted and created again the tier may have several ids: the former one until
its deletion ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kqueue.base.errors import InvalidTopic
from kqueue.base.names import check_topic, parse_uuid, uuid_text
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.json_document import JSON_BYTES_MAX
from kqueue.tier.formats.keys import TIER_KEY, TOPICS, TieredPartition, topic_prefix
from kqueue.tier.formats.tier_record import TierRecord, decode_tier_record
from kqueue.tier.formats.topic_record import TopicRecord, decode_topic_record, topic_record_key
from kqueue.tier.stores.contract import TierStore

_PARTITION = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z", re.ASCII)
PARTITION_MAX = 2**31 - 1


class TieredTopic(NamedTuple):
    """A topic in a tier.

    topic_id: 16 bytes.
    record: None: the tier has none, or it can't be read: `problem` says why.
    partitions: the numbers of those with objects, ascending.
    """

    topic: str
    topic_id: bytes
    record: TopicRecord | None
    problem: str
    partitions: tuple[int, ...]

    @property
    def is_deleted(self) -> bool:
        """Whether its deletion has begun."""
        return self.record is not None and self.record.is_deleted

    def partition(self, number: int) -> TieredPartition:
        """Return the name of one of its partitions."""
        return TieredPartition(self.topic, self.topic_id, number)


def read_tier_record(store: TierStore) -> TierRecord | None:
    """Return what `kqueue-tier.json` says; None: there is none. Raises: TierError."""
    try:
        return decode_tier_record(store.get(TIER_KEY, max_bytes=JSON_BYTES_MAX).body)
    except ObjectNotFound:
        return None


def read_topic_record(store: TierStore, topic: str, topic_id: bytes) -> TopicRecord | None:
    """Return the record of a topic; None: there is none. Raises: TierError."""
    try:
        body = store.get(topic_record_key(topic, topic_id), max_bytes=JSON_BYTES_MAX).body
    except ObjectNotFound:
        return None
    return decode_topic_record(body, topic, topic_id)


def topic_names(store: TierStore) -> list[str]:
    """Return the names of all topics with objects, ascending. Raises: TierError."""
    return [name for name in store.list_folders(TOPICS) if _is_topic(name)]


def topics_named(store: TierStore, topic: str) -> list[TieredTopic]:
    """Return the topics of this name, the one that counts first. Raises: TierError.

    That is the one whose record is the newest and says that it exists; one without a record comes
    after those with one, a deleted one last.
    """
    found = [_read_topic(store, topic, topic_id) for topic_id in _topic_ids(store, topic)]
    return sorted(found, key=_rank, reverse=True)


def all_topics(store: TierStore, names: Sequence[str] = ()) -> Iterator[TieredTopic]:
    """Yield all topics, by name; those of one name as `topics_named` orders them.

    Args: names: only these; empty: all.
    Raises: TierError.
    """
    for name in names or topic_names(store):
        yield from topics_named(store, name)


def _rank(topic: TieredTopic) -> tuple[bool, bool, int]:
    record = topic.record
    return not topic.is_deleted, record is not None, record.created_ms if record is not None else 0


def _read_topic(store: TierStore, topic: str, topic_id: bytes) -> TieredTopic:
    problem = ""
    try:
        record = read_topic_record(store, topic, topic_id)
    except TierCorrupt as error:
        record, problem = None, str(error)
    else:
        if record is None:
            problem = f"topic {topic}, id {uuid_text(topic_id)}, has no record"
    folders = store.list_folders(topic_prefix(topic, topic_id))
    numbers = sorted(int(name) for name in folders if _PARTITION.match(name))
    return TieredTopic(topic, topic_id, record, problem, tuple(one for one in numbers if one <= PARTITION_MAX))


def _topic_ids(store: TierStore, topic: str) -> list[bytes]:
    if not _is_topic(topic):
        return []
    ids = []
    for name in store.list_folders(f"{TOPICS}/{topic}"):
        try:
            topic_id = parse_uuid(name)
        except ValueError:
            continue  # no folder of ours
        if uuid_text(topic_id) == name:  # the last character has spare bits: others mean the same id
            ids.append(topic_id)
    return ids


def _is_topic(name: str) -> bool:
    try:
        check_topic(name)
    except InvalidTopic:
        return False
    return True
