"""The lag of each group: the records that it has still to read, over all its partitions."""

from __future__ import annotations

from collections.abc import Collection

from kqueue.admin.group_partitions import SHARE
from kqueue.admin.log_ends import ends_of
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.base.errors import KqueueError
from kqueue.client import Client, GroupListing, TopicPartition


def group_lags(client: Client, listed: Collection[GroupListing]) -> dict[str, int | None]:
    """Return the lag of each group by name.

    None: the group has committed nothing, or its offsets or a log end can't be read.
    """
    positions: dict[str, dict[TopicPartition, int]] = {}
    lags: dict[str, int | None] = dict.fromkeys((group.name for group in listed), None)
    for group in listed:
        try:
            if group.type == SHARE:
                known = [offset.lag for offset in client.share_offsets(group.name).values()]
                lags[group.name] = _total(known)
            else:
                committed = client.committed(group.name, stable=False)
                positions[group.name] = {partition: entry.offset for partition, entry in committed.items()}
        except KqueueError:
            continue  # not allowed, or gone meanwhile; the list is still of use
    ends = _ends(client, {partition for offsets in positions.values() for partition in offsets})
    for name, offsets in positions.items():
        lags[name] = _total([max(0, ends[one] - offset) if one in ends else None for one, offset in offsets.items()])
    return lags


def _total(lags: Collection[int | None]) -> int | None:
    """Return the sum; None if one is unknown, or there is none."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known and len(known) == len(lags) else None


def _ends(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log ends of the partitions that exist, have a leader and may be read."""
    if not partitions:
        return {}
    topics = client.metadata().topics
    existing = [
        one
        for one in partitions
        if one.topic in topics
        and one.partition in topics[one.topic].partitions
        and topics[one.topic].partitions[one.partition].leader != NO_LEADER
    ]
    return ends_of(client, existing).ends
