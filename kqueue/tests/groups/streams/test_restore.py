from __future__ import annotations

import random

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log import records
from kqueue.groups.log.streams_records import StreamsGroupKey
from kqueue.groups.modern.changes import Changes
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.restore import StreamsRecord, restore
from kqueue.tests.groups.streams.test_group import filled
from kqueue.tests.groups.support import unlimited


def test_a_group_is_read_in_any_order() -> None:
    changes = Changes()
    group = filled(changes)
    found: dict[StreamsGroupKey, bytes] = {}
    for key, value in changes.records():
        read = records.read_key(key)
        assert isinstance(read, StreamsGroupKey)
        assert value is not None
        found[read] = value
    shuffled: list[StreamsRecord] = list(found.items())
    random.Random(1).shuffle(shuffled)
    again = StreamsGroup("g", unlimited())
    run_to_end(restore(again, shuffled))
    for name in ("members", "targets", "topology", "epoch", "metadata_hash", "target_epoch", "target_ms", "state"):
        assert getattr(again, name) == getattr(group, name)
    assert (again.member_bytes, again.assignment_configs) == (group.member_bytes, group.assignment_configs)


def test_a_damaged_record_is_an_error() -> None:
    with pytest.raises(MalformedMessage):
        run_to_end(restore(StreamsGroup("g", unlimited()), [(StreamsGroupKey(23, "g"), b"\0\0\1")]))
