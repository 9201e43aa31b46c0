from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base import events
from kqueue.schema_registry.records import ConfigKey, SchemaKey
from kqueue.schema_registry.replay import Replay
from kqueue.tests.schema_registry.support import name
from kqueue.tests.schema_registry.test_records import OBJECTS
from kqueue.tests.tables import for_each

KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
VALUE = b'{"subject":"s","version":1,"id":1,"schema":"x","deleted":false}'


def test_record_is_in_the_state_with_its_timestamp_once_it_is_applied() -> None:
    replay = Replay()
    assert replay.offset == -1
    replay.apply(4, KEY, VALUE, 77)
    assert replay.offset == 4
    with replay.reading() as state:
        version = state.version(name("s"), 1)
    assert version is not None
    assert version.timestamp_ms == 77


@for_each("key, value", [(b'{"keytype":"NEW"}', VALUE), (None, VALUE), (b"\xff", None), (KEY, b"{}")])
def test_record_that_is_not_understood_is_skipped_with_one_line(key: bytes | None, value: bytes | None) -> None:
    replay, lines = Replay(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kqueue.schema_registry.replay.logger.log", lambda *_, **more: lines.append(more["extra"]))
        replay.apply(0, key, value)
    assert [line["event"] for line in lines] == [events.REGISTRY_RECORD_SKIPPED.name]
    assert replay.offset == 0


@given(st.lists(st.tuples(OBJECTS, st.none() | OBJECTS)))
def test_no_record_stops_the_reader(records: list[tuple[bytes, bytes | None]]) -> None:
    replay = Replay()
    for offset, (key, value) in enumerate(records):
        replay.apply(offset, key, value)
    assert replay.offset == len(records) - 1


def test_waiting_ends_when_the_offset_is_applied_by_another_thread() -> None:
    replay = Replay()
    assert not replay.wait_for(0, timeout_s=0)
    reader = threading.Thread(target=replay.apply, args=(0, KEY, VALUE))
    reader.start()
    assert replay.wait_for(0, timeout_s=60)
    reader.join()


def test_stored_bytes_are_those_of_the_last_values() -> None:
    replay, key = Replay(), SchemaKey("s", 1)
    replay.apply(0, KEY, VALUE + b"  ")
    assert replay.growth(key, VALUE) == -2
    replay.apply(1, KEY, VALUE)
    replay.apply(2, b'{"keytype":"NEW"}', VALUE)
    assert replay.stored_bytes == len(VALUE)
    assert replay.growth(key, None) == -len(VALUE)
    assert replay.growth(ConfigKey("s"), b"{}") == 2
    replay.apply(3, KEY, None)
    replay.apply(4, KEY, None)
    assert replay.stored_bytes == 0


def test_keys_in_another_order_are_remembered() -> None:
    replay = Replay()
    other = b'{"subject":"s","version":1,"magic":0,"keytype":"SCHEMA"}'
    replay.apply(0, KEY, VALUE)
    assert replay.other_keys(SchemaKey("s", 1)) == []
    replay.apply(1, other, VALUE)
    assert replay.other_keys(SchemaKey("s", 1)) == [other]
    assert replay.other_keys(ConfigKey("s")) == []
