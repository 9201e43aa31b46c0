"""Groups of each modern type: each change is what its records say, and can be taken back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import MalformedMessage, UnknownMember
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.records import PARTITION_METADATA
from kqueue.groups.group_types import MODERN_TYPES, TYPE_OF_RECORD
from kqueue.groups.log import modern_records, records
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.modern_records import ModernKey
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.group import ModernGroup, add_count
from kqueue.groups.modern.member import ModernMember
from kqueue.groups.modern.records import GroupEpoch
from kqueue.tests.groups.consumer.test_group import filled as consumer
from kqueue.tests.groups.share.test_group import filled as share
from kqueue.tests.groups.streams.test_group import filled as streams
from kqueue.tests.groups.support import unlimited
from kqueue.tests.tables import for_each

AnyGroup = ModernGroup[Any, Any]
each_type = for_each("filled", [consumer, share, streams])
Filled = Callable[[Changes], AnyGroup]
IN_MEMORY = {"sessions", "revocations", "deadlines", "timers", "join_deadlines", "sync_deadlines", "_limits"}


def shown(group: AnyGroup) -> dict[str, object]:
    """All that records say of a group, and what follows from it."""
    values = {**vars(group), "state": group.state}
    return {name: copied(value) for name, value in values.items() if name not in IN_MEMORY}


def copied(value: object) -> object:
    """A copy of tables of tables and sets, which changes would change."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    return set(value) if isinstance(value, set) else value


def latest(changes: Changes) -> list[tuple[ModernKey, bytes]]:
    """The records of changes, one of each key, as a compacted log has them."""
    kept = []
    for raw, value in dict(changes.records()).items():
        key = records.read_key(raw)
        assert isinstance(key, ModernKey)
        if value is not None:
            kept.append((key, value))
    return kept


@each_type
def test_records_restore_a_group_in_any_order(filled: Filled) -> None:
    changes = Changes()
    group = filled(changes)
    kept = latest(changes)
    for seed in range(5):
        random.Random(seed).shuffle(kept)
        again = type(group)("g", unlimited())
        run_to_end(again.restore(kept))
        assert shown(again) == shown(group)


@each_type
def test_every_change_can_be_taken_back(filled: Filled) -> None:
    changes = Changes()
    group = filled(changes)
    new = shown(type(group)("g", unlimited()))
    before, more = shown(group), Changes()
    member = next(iter(group.members.values()))
    group.put_metadata(more, member.member_id, group.no_metadata)
    group.put_current(more, member.member_id, CurrentAssignment(9, 8))
    group.put_metadata(more, "other", member.metadata)
    group.put_target(more, "other", {})
    group.set_epoch(more, GroupEpoch(9, 8))
    group.set_target_epoch(more, 9, 8)
    for member_id in list(group.members):
        group.remove_member(more, member_id)
    assert group.is_empty
    more.roll_back()
    assert shown(group) == before
    changes.roll_back()
    assert shown(group) == new
    assert group._limits.member_bytes == 0


@each_type
def test_a_removed_group_leaves_no_record(filled: Filled) -> None:
    changes, removed = Changes(), Changes()
    group = filled(changes)
    group.remove_records(removed)
    assert {key for key, _ in changes.records()} <= {key for key, _ in removed.records()}
    assert all(value is None for _, value in removed.records())
    group.release()
    assert group.member_bytes == group._limits.member_bytes == 0


@for_each("kind", MODERN_TYPES)
def test_a_damaged_record_is_refused(kind: type[AnyGroup]) -> None:
    with pytest.raises(MalformedMessage):
        run_to_end(kind("g", unlimited()).restore([(ModernKey(kind.records.epoch.number, "g"), b"\0\0?")]))


def test_topics_of_kafka_4_0_are_read_over() -> None:
    group = ConsumerGroup("g", unlimited())
    run_to_end(group.restore([(ModernKey(PARTITION_METADATA, "g"), b"anything")]))
    assert group.is_empty


def test_each_type_of_record_belongs_to_one_type_of_groups() -> None:
    assert set(TYPE_OF_RECORD) == modern_records.KEYS
    assert sum(len(kind.records.numbers()) for kind in MODERN_TYPES) == len(TYPE_OF_RECORD)


def test_only_members_are_members() -> None:
    group = ConsumerGroup("g", unlimited())
    assert group.is_empty
    with pytest.raises(UnknownMember):
        group.check_member("m")
    group.members["m"] = member = ModernMember("m", group.no_metadata)
    assert not group.is_empty
    assert group.check_member("m") is member


def test_a_removed_group_is_no_longer_counted() -> None:
    limits = unlimited()
    groups = [ConsumerGroup(name, limits) for name in "gh"]
    for group in groups:
        group._count_bytes(10)
    groups[0].release()
    groups[0].release()
    assert (limits.member_bytes, groups[0].member_bytes, groups[1].member_bytes) == (10, 0, 10)


def test_a_key_without_a_count_is_removed() -> None:
    counter: Counter[str] = Counter()
    add_count(counter, "a", 2)
    add_count(counter, "a", -2)
    assert not dict(counter)
