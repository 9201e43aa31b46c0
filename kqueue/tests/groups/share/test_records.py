"""The records of share groups, byte for byte and back."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.modern import records as modern_values
from kqueue.groups.modern.records import GroupEpoch, TargetEpoch
from kqueue.groups.share import records
from kqueue.groups.share.member import ShareSubscription, current_of
from kqueue.groups.share.records import StatePartitions, StateTopic

TOPIC = bytes(range(16))


def test_values() -> None:
    assert records.epoch_value(GroupEpoch(3, -2)).hex() == "000000000003fffffffffffffffe00"
    assert records.read_epoch(records.epoch_value(GroupEpoch(3, -2))) == GroupEpoch(3, -2)
    subscription = ShareSubscription("r", "c", "/h", ("a", "b"))
    assert records.read_metadata(records.metadata_value(subscription)) == subscription
    assert modern_values.read_target_epoch(modern_values.target_epoch_value(TargetEpoch(4, 5))) == (4, 5)
    assignment = {TOPIC: frozenset({0, 2})}
    assert modern_values.read_target(modern_values.target_value(assignment)) == assignment
    current = current_of(4, 3, assignment)
    assert current.assigned == {TOPIC: {0: 4, 2: 4}}
    assert records.read_current(records.current_value(current)) == current
    state = StatePartitions(
        {TOPIC: StateTopic("t", frozenset({1}))}, {TOPIC: StateTopic("t", frozenset({0}))}, {TOPIC: "t"}
    )
    assert records.read_state(records.state_value(state)) == state


def test_an_unknown_version() -> None:
    with pytest.raises(MalformedMessage, match="has version 0, found 1"):
        records.read_epoch(b"\x00\x01" + bytes(20))
