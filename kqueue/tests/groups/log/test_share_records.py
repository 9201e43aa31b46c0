"""The records of share groups, byte for byte and back."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.log import records as all_records
from kqueue.groups.log import share_records as records
from kqueue.groups.log.share_records import ShareGroupKey, StatePartitions, StateTopic
from kqueue.groups.share.member import ShareMember, ShareSubscription

TOPIC = bytes(range(16))


@pytest.mark.parametrize("type", sorted(records.KEYS))
def test_keys(type: int) -> None:
    name = "m" if type in records.MEMBER_KEYS else ""
    key = records.key(type, "g", name)
    assert key == type.to_bytes(2, "big") + b"\0\1g" + (b"\0\1m" if name else b"")
    assert all_records.read_key(key) == ShareGroupKey(type, "g", name)


def test_values() -> None:
    assert records.epoch_value(3, -2).hex() == "000000000003fffffffffffffffe00"
    assert records.read_epoch(records.epoch_value(3, -2)) == (3, -2)
    subscription = ShareSubscription("r", "c", "/h", ("a", "b"))
    assert records.read_subscription(records.subscription_value(subscription)) == subscription
    assert records.read_target_epoch(records.target_epoch_value(4, 5)) == (4, 5)
    assignment = {TOPIC: frozenset({0, 2})}
    assert records.read_target(records.target_value(assignment)) == assignment
    member = ShareMember("m", epoch=4, previous_epoch=3, assigned=assignment)
    assert records.read_current(records.current_value(member)) == (4, 3, assignment)
    state = StatePartitions(
        {TOPIC: StateTopic("t", frozenset({1}))}, {TOPIC: StateTopic("t", frozenset({0}))}, {TOPIC: "t"}
    )
    assert records.read_state(records.state_value(state)) == state


def test_an_unknown_version() -> None:
    with pytest.raises(MalformedMessage, match="has version 0, found 1"):
        records.read_epoch(b"\x00\x01" + bytes(20))
