"""A streams group from its records, in any order: compaction keeps the last one of each key."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.log import streams_records as records
from kqueue.groups.log.streams_records import StreamsGroupKey
from kqueue.groups.modern.changes import Changes
from kqueue.groups.streams.group import StreamsGroup

StreamsRecord = tuple[StreamsGroupKey, bytes]
"""Key and value, without tombstones."""
RESTORED = (
    records.GROUP_EPOCH,
    records.TOPOLOGY,
    records.MEMBER_METADATA,
    records.MEMBER_CURRENT,
    records.MEMBER_TARGET,
    records.TARGET_EPOCH,
)
"""Types in the order in which they are applied."""


def restore(group: StreamsGroup, group_records: Iterable[StreamsRecord]) -> SlicedWork[None]:
    """Apply the records of a group, one step each. Raises: MalformedMessage."""
    by_type: dict[int, list[StreamsRecord]] = {}
    for each in group_records:
        by_type.setdefault(each[0].type, []).append(each)
    for type in RESTORED:
        for key, value in by_type.get(type, ()):
            _apply(group, key, value)
            yield None


def _apply(group: StreamsGroup, key: StreamsGroupKey, value: bytes) -> None:
    unlogged = Changes()  # what is read is in the log
    if key.type == records.GROUP_EPOCH:
        group.set_epoch(unlogged, records.read_epoch(value))
    elif key.type == records.TOPOLOGY:
        group.set_topology(unlogged, records.read_topology(value))
    elif key.type == records.MEMBER_METADATA:
        group.put_metadata(unlogged, key.name, records.read_metadata(value))
    elif key.type == records.MEMBER_CURRENT:
        group.put_current(unlogged, key.name, records.read_current(value))
    elif key.type == records.MEMBER_TARGET:
        group.put_target(unlogged, key.name, records.read_target(value))
    else:
        group.set_target_epoch(unlogged, *records.read_target_epoch(value))
