"""Errors in coordinator records.

Tests/cli/log/test_dump.py compares valid ones with Kafka's tool.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.groups.log.records import CommittedOffset, group_key, offset_key, offset_value
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.decoders.coordinator import (
    GROUP_TYPES,
    TRANSACTION_TYPES,
    offsets_decoder,
    transaction_log_decoder,
)
from kqueue.records.record import Record
from kqueue.tests.tables import for_each

KEY = offset_key("g", "t", 1)
VALUE = offset_value(CommittedOffset(5, -1, "", 7))


def test_an_offset() -> None:
    key, value = offsets_decoder(Record(0, 0, KEY, VALUE))
    assert key == '{"type":"1","data":{"group":"g","topic":"t","partition":1}}'
    assert value == '{"version":"4","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":7}}'
    assert offsets_decoder(Record(0, 0, KEY, None)) == (key, "<DELETE>")
    assert offsets_decoder(Record(0, 0, KEY, VALUE + b"of a newer version"))[1] == value


def test_unknown_record_type_is_named_in_place_of_the_key() -> None:
    assert offsets_decoder(Record(3, 0, struct.pack(">h", 9), VALUE)) == (
        "Unknown record type 9 at offset 3, skipping.",
        None,
    )
    assert transaction_log_decoder(Record(3, 0, KEY, None)) == ("Unknown record type 1 at offset 3, skipping.", None)


@for_each(
    "key, value", [(b"\0", VALUE), (KEY[:-1], VALUE), (KEY, VALUE[:-2]), (KEY, b"\0\x63"), (KEY, b""), (b"", None)]
)
def test_unreadable_record_is_reported(key: bytes, value: bytes | None) -> None:
    shown, nothing = offsets_decoder(Record(8, 0, key, value))
    assert str(shown).startswith("Error at offset 8, skipping. ")
    assert nothing is None


def test_every_record_has_a_key() -> None:
    with pytest.raises(DecodeError, match="has a key, found none"):
        offsets_decoder(Record(8, 0, None, VALUE))


@given(
    st.sampled_from(
        [(offsets_decoder, kind) for kind in GROUP_TYPES]
        + [(transaction_log_decoder, kind) for kind in TRANSACTION_TYPES]
    ),
    st.binary(max_size=60),
    st.none() | st.tuples(st.integers(-1, 5), st.binary(max_size=80)),
)
def test_any_bytes_are_shown_in_one_line(
    which: tuple[object, int], rest: bytes, value: tuple[int, bytes] | None
) -> None:
    decode, kind = which
    data = None if value is None else struct.pack(">h", value[0]) + value[1]
    for key in (struct.pack(">h", kind) + rest, KEY if kind < 2 else group_key("g")):
        shown = decode(Record(1, 0, key, data))  # type: ignore[operator]
        assert shown[0]
        assert "\n" not in f"{shown[0]}{shown[1]}"
