from __future__ import annotations

from collections import Counter

import pytest

from kqueue.base.errors import UnknownMember
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import ConsumerGroupMember
from kqueue.groups.modern.group import add_count
from kqueue.tests.groups.support import unlimited


def test_only_members_are_members() -> None:
    group = ConsumerGroup("g", unlimited())
    assert group.is_empty
    with pytest.raises(UnknownMember):
        group.check_member("m")
    group.members["m"] = member = ConsumerGroupMember("m")
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
