"""The lag of each group: the records that it has still to read, over all its partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kqueue.admin.group_partitions import SHARE
from kqueue.admin.log_ends import ends_with_leader
from kqueue.base.errors import KqueueError
from kqueue.client import Client, GroupListing, TopicPartition


class GroupProgress(NamedTuple):
    """Where a group is.

    `offsets`: committed ones; of a share group its start offsets. `lag`: records that it has still
    to read; None: unknown, or it has committed nothing.
    """

    offsets: Mapping[TopicPartition, int]
    lag: int | None


def group_progress(client: Client, group: GroupListing, *, timeout_ms: int | None = None) -> GroupProgress:
    """Return where a group is; its lag only of a share group, whose broker knows it.

    Raises: ClientError.
    """
    if group.type == SHARE:
        shared = client.share_offsets(group.name, timeout_ms=timeout_ms)
        starts = {one: offset.start for one, offset in shared.items() if offset.start is not None}
        return GroupProgress(starts, _total([offset.lag for offset in shared.values()]))
    committed = client.committed(group.name, stable=False, timeout_ms=timeout_ms)
    return GroupProgress({partition: entry.offset for partition, entry in committed.items()}, None)


def with_lag(progress: GroupProgress, ends: Mapping[TopicPartition, int]) -> GroupProgress:
    """Return the progress of a group that commits offsets with its lag.

    Args:
        ends: log ends that were read after the offsets. One that is missing makes the lag unknown.
    """
    lags = [max(0, ends[one] - offset) if one in ends else None for one, offset in progress.offsets.items()]
    return GroupProgress(progress.offsets, _total(lags))


def group_lags(client: Client, listed: Collection[GroupListing]) -> dict[str, int | None]:
    """Return the lag of each group by name.

    None: the group has committed nothing, or its offsets or a log end can't be read.
    """
    lags: dict[str, int | None] = dict.fromkeys((group.name for group in listed), None)
    committing: dict[str, GroupProgress] = {}
    for group in listed:
        try:
            progress = group_progress(client, group)
        except KqueueError:
            continue  # not allowed, or gone meanwhile; the list is still of use
        if group.type == SHARE:
            lags[group.name] = progress.lag
        else:
            committing[group.name] = progress
    partitions = {partition for progress in committing.values() for partition in progress.offsets}
    ends = ends_with_leader(client, partitions, client.metadata().topics) if partitions else {}
    return lags | {name: with_lag(progress, ends).lag for name, progress in committing.items()}


def _total(lags: Collection[int | None]) -> int | None:
    """Return the sum; None if one is unknown, or there is none."""
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known and len(known) == len(lags) else None
