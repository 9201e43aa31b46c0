"""Snapshots of a cluster that is not there, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.admin.group_lags import GroupProgress, with_lag
from kqueue.admin.log_dirs import TopicSize
from kqueue.admin.rates import Sample
from kqueue.admin.snapshot import Snapshot
from kqueue.client import ClusterMetadata, GroupListing, TopicPartition

START_MS = 1_800_000_000_000


def snapshot(
    time_s: float,
    ends: Mapping[TopicPartition, int],
    groups: Mapping[str, Mapping[TopicPartition, int] | None],
    sizes: Mapping[str, TopicSize] | None = None,
) -> Snapshot:
    """Return what a reading found. `groups`: committed offsets by name; None: not read."""
    progress = {
        name: with_lag(GroupProgress(offsets, None), ends) for name, offsets in groups.items() if offsets is not None
    }
    return Snapshot(
        Sample(time_s, ends, {}, progress),
        ClusterMetadata({}, {}),
        brokers=[],
        counts={"under_replicated": 2, "unavailable": 0},
        sizes=sizes or {},
        dirs={},
        groups={name: GroupListing(name, "consumer", "Empty", "classic") for name in groups},
    )
