"""The objects of a tier that are of no single segment: whose tier it is, the record of each topic;
and the deletion of all objects of a topic or partition.

    kqueue-tier.json    {"format": 1, "cluster_id": ...}
    topic.json          {"format": 1, "name": ..., "id": ..., "partitions": ..., "configs": {...}}

All functions block.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from itertools import islice

from kqueue.base.names import uuid_text
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.formats.keys import MANIFEST, TIER_KEY, TOPIC_RECORD, topic_prefix
from kqueue.tier.stores.contract import TierStore

FORMAT = 1
BYTES_MAX = 1 << 20
DELETED_AT_ONCE = 1000


class OtherCluster(TierError):
    """The tier belongs to another cluster, or is in a newer format."""


def check_cluster(store: TierStore, cluster_id: str) -> None:
    """Make an empty tier that of this cluster; check that another one is.

    Raises: OtherCluster. TierError.
    """
    body = json.dumps({"format": FORMAT, "cluster_id": cluster_id}).encode()
    with contextlib.suppress(ObjectChanged):  # another broker was first
        if not _exists(store, TIER_KEY):
            store.put_if(TIER_KEY, body, None)
    values = _read(store, TIER_KEY)
    if values.get("format") != FORMAT:
        raise OtherCluster(
            f"{store.location}: {TIER_KEY} has format {str(values.get('format'))[:20]}, this version reads {FORMAT}"
        )
    if values.get("cluster_id") != cluster_id:
        raise OtherCluster(
            f"{store.location} is the tier of cluster {str(values.get('cluster_id'))[:60]!r}, and this one is "
            f"{cluster_id!r}: two clusters would delete each other's segments. Name another prefix in kqueue.tier.url"
        )


def write_topic(store: TierStore, name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str]) -> None:
    """Write what a topic is, for the recovery of a cluster that lost its metadata.

    Raises: TierError.
    """
    values = {
        "format": FORMAT,
        "name": name,
        "id": uuid_text(topic_id),
        "partitions": partitions,
        "configs": dict(configs),
    }
    body = json.dumps(values, indent=1).encode()
    store.put(f"{topic_prefix(name, topic_id)}/{TOPIC_RECORD}", (body,), len(body))


def delete_topic(store: TierStore, name: str, topic_id: bytes, partitions: int) -> None:
    """Delete all objects of a topic. Repeated after a crash it goes on. Raises: TierError."""
    prefix = topic_prefix(name, topic_id)
    delete_all(store, prefix, [f"{prefix}/{TOPIC_RECORD}", *(f"{prefix}/{i}/{MANIFEST}" for i in range(partitions))])


def delete_all(store: TierStore, prefix: str, first: Sequence[str]) -> None:
    """Delete all objects below a prefix, `first` before the others: without the manifest no copy
    under way can end, and no reader finds a segment that is deleted next. Raises: TierError.
    """
    store.delete(first)
    while keys := [entry.key for entry in islice(store.list(prefix), DELETED_AT_ONCE)]:
        store.delete(keys)


def _exists(store: TierStore, key: str) -> bool:
    try:
        store.get(key, max_bytes=BYTES_MAX)
    except ObjectNotFound:
        return False
    return True


def _read(store: TierStore, key: str) -> dict[str, object]:
    body = store.get(key, max_bytes=BYTES_MAX).body
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise TierCorrupt(f"{store.location}/{key}: expected a JSON object, found {body[:40]!r}")
    return values
