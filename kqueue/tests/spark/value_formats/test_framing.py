"""The frame of serializers with a registry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.spark.value_formats.framing import INDEXES_MAX, FrameError, read_frame
from kqueue.tests.tables import for_each

INDEXES = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=INDEXES_MAX)


def zigzag(number: int) -> bytes:
    """A whole number as Avro and Protobuf write signed ones."""
    number = number << 1 ^ number >> 63
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def framed(schema_id: int, value: bytes, indexes: list[int] | None = None) -> bytes:
    listed = b"" if indexes is None else b"".join(map(zigzag, [len(indexes), *indexes]))
    return b"\0" + schema_id.to_bytes(4, "big") + listed + value


@given(st.integers(0, 2**32 - 1), st.binary(max_size=20), INDEXES)
def test_frame_survives_a_round_trip(schema_id: int, value: bytes, indexes: list[int]) -> None:
    plain = framed(schema_id, value)
    frame = read_frame(plain, with_indexes=False)
    assert (frame.schema_id, frame.indexes, plain[frame.start :]) == (schema_id, (), value)
    whole = framed(schema_id, value, indexes)
    frame = read_frame(whole, with_indexes=True)
    assert (frame.schema_id, frame.indexes, whole[frame.start :]) == (schema_id, tuple(indexes), value)


def test_short_form_means_the_first_message() -> None:
    assert read_frame(b"\0\0\0\0\7\0rest", with_indexes=True) == (7, (0,), 6)


@given(st.binary(max_size=30))
def test_any_bytes_give_a_frame_or_an_error(value: bytes) -> None:
    for with_indexes in (False, True):
        try:
            frame = read_frame(value, with_indexes=with_indexes)
        except FrameError:
            continue
        assert 5 <= frame.start <= len(value)


@for_each(
    "value, words",
    [
        (b"", "expected 5 bytes, found 0"),
        (b"\1\0\0\0\1", "expected the first byte 0, found 1"),
        (b"\0\0\0\0\1", "ends within its message indexes"),
        (b"\0\0\0\0\1\4\0", "ends within its message indexes"),
        (b"\0\0\0\0\1\1", "-1 message indexes"),
        (b"\0\0\0\0\1" + zigzag(33), "33 message indexes"),
        (b"\0\0\0\0\1\2\1", "the message index -1"),
        (b"\0\0\0\0\1" + b"\xff" * 9, "more than 5 bytes"),
    ],
)
def test_malformed_frame_is_refused(value: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        read_frame(value, with_indexes=True)
