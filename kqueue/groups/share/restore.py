"""A share group from its records, in any order: compaction keeps the last one of each key."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.log import share_records as records
from kqueue.groups.log.share_records import ShareGroupKey
from kqueue.groups.modern.changes import Changes
from kqueue.groups.share.group import ShareGroup

ShareRecord = tuple[ShareGroupKey, bytes]
"""Key and value, without tombstones."""


def restore(group: ShareGroup, group_records: Iterable[ShareRecord]) -> SlicedWork[None]:
    """Apply the records of a group, one step each. Raises: MalformedMessage."""
    for key, value in group_records:
        _apply(group, key, value)
        yield None


def _apply(group: ShareGroup, key: ShareGroupKey, value: bytes) -> None:
    unlogged = Changes()  # what is read is in the log
    if key.type == records.GROUP_EPOCH:
        group.set_epoch(unlogged, *records.read_epoch(value))
    elif key.type == records.MEMBER_SUBSCRIPTION:
        group.put_subscription(unlogged, key.name, records.read_subscription(value))
    elif key.type == records.MEMBER_CURRENT:
        group.put_current(unlogged, key.name, *records.read_current(value))
    elif key.type == records.MEMBER_TARGET:
        group.put_target(unlogged, key.name, records.read_target(value))
    elif key.type == records.TARGET_EPOCH:
        group.set_target_epoch(unlogged, *records.read_target_epoch(value))
    else:
        group.put_state(unlogged, records.read_state(value))
