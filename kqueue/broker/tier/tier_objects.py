"""The objects of a tier that are of no single segment: whose tier it is, and the record of each
topic; and the deletion of all objects of a topic or partition.

All functions block. Raises, in all of them: TierError.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import islice

from kqueue.tier.catalog import read_tier_record
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.formats.json_document import JSON_BYTES_MAX
from kqueue.tier.formats.keys import MANIFEST, TIER_KEY, TieredPartition, topic_prefix
from kqueue.tier.formats.tier_record import TierRecord, encode_tier_record
from kqueue.tier.formats.topic_record import TopicRecord, decode_topic_record, encode_topic_record
from kqueue.tier.stores.contract import TierStore, Version

DELETED_AT_ONCE = 1000


class OtherCluster(TierError):
    """The tier belongs to another cluster."""


def check_cluster(store: TierStore, cluster_id: str, now_ms: int) -> None:
    """Make an empty tier that of this cluster; check that another one is.

    Raises: OtherCluster.
    """
    record = read_tier_record(store)
    if record is None:
        with contextlib.suppress(ObjectChanged):  # another broker was first
            store.put_if(TIER_KEY, encode_tier_record(TierRecord(cluster_id, now_ms)), None)
        record = read_tier_record(store)
    if record is None or record.cluster_id != cluster_id:
        owner = "nobody" if record is None else f"cluster {record.cluster_id!r}"
        raise OtherCluster(
            f"{store.location} is the tier of {owner}, and this cluster is {cluster_id!r}: two clusters would delete "
            "each other's segments. Name another prefix in kqueue.tier.url"
        )


def write_topic(store: TierStore, record: TopicRecord) -> None:
    """Write what a topic is, unless the tier says the same; `created_ms` and `sequence` go on from
    what is there.

    Raises: ObjectChanged: another broker has written it at the same time.
    """
    known, version = _read(store, record)
    if known is not None:
        record = replace(record, created_ms=known.created_ms, sequence=known.sequence)
        if record == known:
            return
    store.put_if(record.key, encode_topic_record(record.next()), version)


def delete_topic(store: TierStore, record: TopicRecord) -> None:
    """Delete all objects of a topic, whose record says so first and goes last.

    Args: record: with `deleted_ms`; the rest is that of the record there. After a crash it goes on.
    """
    prefix = topic_prefix(record.topic, record.topic_id)
    if next(store.list(prefix), None) is None:
        return
    known, version = _read(store, record)
    if known is None or not known.is_deleted:
        deleted = record if known is None else replace(known, deleted_ms=record.deleted_ms)
        with contextlib.suppress(ObjectChanged):  # another broker deletes it too
            store.put_if(record.key, encode_topic_record(deleted.next()), version)
    for partition in store.list_folders(prefix):
        _delete_below(store, f"{prefix}/{partition}")
    _delete_below(store, prefix)


def delete_partition(store: TierStore, partition: TieredPartition) -> None:
    """Delete all objects of a partition."""
    _delete_below(store, partition.prefix)


def _delete_below(store: TierStore, prefix: str) -> None:
    """Delete all objects below a prefix, the manifest before the others: without it no copy under
    way can end, and no reader finds a segment that is deleted next.
    """
    store.delete([f"{prefix}/{MANIFEST}"])
    while keys := [entry.key for entry in islice(store.list(prefix), DELETED_AT_ONCE)]:
        store.delete(keys)


def _read(store: TierStore, record: TopicRecord) -> tuple[TopicRecord | None, Version | None]:
    """Return the record that is there, None: there is none, or it is damaged; and its version."""
    try:
        found = store.get(record.key, max_bytes=JSON_BYTES_MAX)
    except ObjectNotFound:
        return None, None
    try:
        return decode_topic_record(found.body, record.topic, record.topic_id), found.version
    except TierCorrupt:
        return None, found.version  # it is written again
