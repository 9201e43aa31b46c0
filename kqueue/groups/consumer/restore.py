"""A consumer group from its records, in any order: compaction keeps the last one of each key."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.log import consumer_records as records
from kqueue.groups.log.consumer_records import ConsumerGroupKey
from kqueue.groups.modern.changes import Changes

ConsumerRecord = tuple[ConsumerGroupKey, bytes]
"""Key and value, without tombstones."""
RESTORED = (
    records.GROUP_EPOCH,
    records.MEMBER_SUBSCRIPTION,
    records.MEMBER_CURRENT,
    records.MEMBER_TARGET,
    records.TARGET_EPOCH,
    records.RESOLVED_REGEX,
)
"""Types in the order in which they are applied; others (topics, of Kafka 4.0) are skipped."""


def restore(group: ConsumerGroup, group_records: Iterable[ConsumerRecord]) -> SlicedWork[None]:
    """Apply the records of a group, one step each. Raises: MalformedMessage."""
    by_type: dict[int, list[ConsumerRecord]] = {}
    for each in group_records:
        by_type.setdefault(each[0].type, []).append(each)
    for type in RESTORED:
        for key, value in by_type.get(type, ()):
            _apply(group, key, value)
            yield None
    group.has_new_patterns = any(pattern not in group.regexes for pattern in group.patterns)


def _apply(group: ConsumerGroup, key: ConsumerGroupKey, value: bytes) -> None:
    unlogged = Changes()  # what is read is in the log
    if key.type == records.GROUP_EPOCH:
        group.set_epoch(unlogged, *records.read_epoch(value))
    elif key.type == records.MEMBER_SUBSCRIPTION:
        group.put_subscription(unlogged, key.name, records.read_subscription(value))
    elif key.type == records.MEMBER_CURRENT:
        group.put_current(unlogged, key.name, records.read_current(value))
    elif key.type == records.MEMBER_TARGET:
        group.put_target(unlogged, key.name, records.read_target(value))
    elif key.type == records.TARGET_EPOCH:
        group.set_target_epoch(unlogged, *records.read_target_epoch(value))
    else:
        group.put_regex(unlogged, key.name, records.read_regex(value))
