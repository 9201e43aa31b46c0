"""Writes the records of a tier and of its topics; `catalog` reads them.

All functions block. A record is replaced on the condition that nobody has since it was read, so of
two writers at once both are kept apart, and the later one is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.formats.json_document import JSON_BYTES_MAX
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.formats.tier_record import TierRecord, decode_tier_record, encode_tier_record
from kqueue.tier.formats.topic_record import (
    TopicRecord,
    decode_topic_record,
    encode_topic_record,
    topic_record_key,
)
from kqueue.tier.stores.contract import TierStore, Version

ATTEMPTS_MAX = 5


class OtherCluster(TierError):
    """The tier belongs to another cluster."""


def check_cluster(store: TierStore, cluster_id: str, now_ms: int) -> None:
    """Make an empty tier that of this cluster; check that another one is.

    Raises: OtherCluster. TierError.
    """
    for _ in range(ATTEMPTS_MAX):
        record, version = _read_tier(store)
        if record is not None and record.cluster_id == cluster_id:
            return
        if record is not None:
            raise OtherCluster(
                f"{store.location} is the tier of cluster {record.cluster_id!r}, and this one is {cluster_id!r}: two "
                "clusters would delete each other's segments. Name another URL, or, if that cluster is gone for good, "
                "see `kqueue tier recover`"
            )
        try:
            store.put_if(TIER_KEY, encode_tier_record(TierRecord(cluster_id, now_ms)), version)
        except ObjectChanged:
            continue  # another broker was first
    raise TierError(f"{store.location}/{TIER_KEY} changes all the time")


def take_over(store: TierStore, cluster_id: str, now_ms: int) -> None:
    """Make the tier that of another cluster, whatever it was before. Raises: TierError."""
    try:
        record, version = _read_tier(store)
    except TierCorrupt:
        version = store.get(TIER_KEY, max_bytes=JSON_BYTES_MAX).version
        record = None
    created_ms, sequence = (now_ms, 0) if record is None else (record.created_ms, record.sequence + 1)
    store.put_if(TIER_KEY, encode_tier_record(TierRecord(cluster_id, created_ms, sequence)), version)


def write_topic(
    store: TierStore,
    topic: str,
    topic_id: bytes,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    now_ms: int,
) -> TopicRecord:
    """Write what a topic is; the time of its first record stays. Returns: the record.

    Nothing is written where nothing has changed. Raises: TierError.
    """
    values = {"partitions": partitions, "replication_factor": replication_factor, "configs": dict(configs)}

    def change(record: TopicRecord | None) -> TopicRecord:
        if record is None:
            return TopicRecord(topic, topic_id, created_ms=now_ms, **values)  # type: ignore[arg-type]
        changed = record.next(**values, deleted_ms=None)
        return record if changed == record.next() else changed

    return _change(store, topic, topic_id, change)


def note_deletion(store: TierStore, topic: str, topic_id: bytes, now_ms: int) -> TopicRecord:
    """Say in the record of a topic that its deletion has begun. Raises: TierError."""

    def change(record: TopicRecord | None) -> TopicRecord:
        known = TopicRecord(topic, topic_id, 1) if record is None else record
        return known if known.is_deleted else known.next(deleted_ms=now_ms)

    return _change(store, topic, topic_id, change)


def _read_tier(store: TierStore) -> tuple[TierRecord | None, Version | None]:
    try:
        body, version = store.get(TIER_KEY, max_bytes=JSON_BYTES_MAX)
    except ObjectNotFound:
        return None, None
    return decode_tier_record(body), version


def _change(
    store: TierStore, topic: str, topic_id: bytes, change: Callable[[TopicRecord | None], TopicRecord]
) -> TopicRecord:
    key = topic_record_key(topic, topic_id)
    for _ in range(ATTEMPTS_MAX):
        record: TopicRecord | None = None
        version: Version | None = None
        try:
            body, version = store.get(key, max_bytes=JSON_BYTES_MAX)
            record = decode_topic_record(body, topic, topic_id)
        except ObjectNotFound:
            pass
        except TierCorrupt:
            if version is None:
                raise  # too large to be read, so it can't be replaced either
        changed = change(record)
        if changed == record:
            return changed
        try:
            store.put_if(key, encode_topic_record(changed), version)
        except ObjectChanged:
            continue
        return changed
    raise TierError(f"{store.location}/{key} changes all the time")
