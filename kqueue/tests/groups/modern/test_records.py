from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.group_types import MODERN_TYPES
from kqueue.groups.modern import records
from kqueue.groups.modern.records import TargetEpoch

TOPIC = bytes(range(16))


def test_values_that_types_share_are_read_as_they_were_written() -> None:
    target = {TOPIC: frozenset({0, 2})}
    assert records.read_target(records.target_value(target)) == target
    epoch = TargetEpoch(4, 5)
    assert records.read_target_epoch(records.target_epoch_value(epoch)) == epoch


def test_numbers_are_those_of_all_records_of_a_type() -> None:
    numbers = [sorted(kind.records.numbers()) for kind in MODERN_TYPES]
    assert numbers == [[3, 4, 5, 6, 7, 8, 16], [10, 11, 12, 13, 14, 15], [17, 19, 20, 21, 22, 23]]


def test_another_version_of_a_value_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="version 0, found 1"):
        records.read_target(b"\0\1\0")
