from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage, UnencodableMessage
from kqueue.schema import runtime
from kqueue.tests.tables import for_each

values = st.integers(0, 2**32 - 1)


@given(values)
@example(0)
@example(127)
@example(128)
@example(16383)
@example(16384)
@example(2**28 - 1)
@example(2**28)
@example(2**32 - 1)
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    data = runtime.uvarint(value)
    assert runtime.uvarint_at(memoryview(b"x" + data + b"y"), 1) == (value, 1 + len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))
    assert all(byte > 127 for byte in data[:-1])
    assert data[-1] < 128


@for_each("value, data", [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")])
def test_varints_written_out(value: int, data: str) -> None:
    assert runtime.uvarint(value).hex() == data


@for_each("data", ["ffffffff10", "ffffffffff", "8080808080", "ffffffffff01"])
def test_a_varint_of_more_than_32_bits_is_malformed(data: str) -> None:
    with pytest.raises(MalformedMessage, match="expected a varint of at most 32 bits"):
        runtime.uvarint_at(memoryview(bytes.fromhex(data)), 0)


def test_a_varint_may_be_padded() -> None:
    assert runtime.uvarint_at(memoryview(b"\x85\x80\x00"), 0) == (5, 3)


@given(values)
def test_a_cut_varint_runs_into_the_end(value: int) -> None:
    data = runtime.uvarint(value)
    for size in range(len(data)):
        with pytest.raises(IndexError):
            runtime.uvarint_at(memoryview(data[:size]), 0)


def test_more_than_32_bits_are_not_written() -> None:
    with pytest.raises(UnencodableMessage, match="below 2\\^32"):
        runtime.uvarint(2**32)


def test_a_string_too_long_is_not_written() -> None:
    assert runtime.uvarint_text(runtime.STRING_SIZE_MAX + 1) == runtime.uvarint(32768)
    with pytest.raises(UnencodableMessage, match="at most 32767 bytes, found 32768"):
        runtime.uvarint_text(runtime.STRING_SIZE_MAX + 2)


@for_each("letter", ["n", "\u00e9", "\u20ac", "\U0001f600"])
def test_text_too_long_for_a_string_loses_its_middle(letter: str) -> None:
    text = f"<{letter * 20_000}x{letter * 20_000}>"
    short = runtime.shortened_text(text).decode()
    assert runtime.STRING_SIZE_MAX - 8 <= len(short.encode()) <= runtime.STRING_SIZE_MAX
    head, omission, tail = short.partition(runtime.OMISSION)
    assert omission
    assert text.startswith(head)
    assert text.endswith(tail)


def test_text_that_fits_a_string_is_whole() -> None:
    assert runtime.shortened_text("n" * runtime.STRING_SIZE_MAX) == b"n" * runtime.STRING_SIZE_MAX
    assert runtime.shortened_text("file \udc80") == b"file \\udc80"


@given(st.lists(st.tuples(values, st.binary(max_size=200)), max_size=200))
def test_tags_are_skipped_whole(tags: list[tuple[int, bytes]]) -> None:
    data = runtime.uvarint(len(tags)) + b"".join(
        runtime.uvarint(tag) + runtime.uvarint(len(value)) + value for tag, value in tags
    )
    assert runtime.skip_tags(memoryview(data + b"rest"), 1, data[0], len(data) + 4) == len(data)


def test_a_tag_that_reaches_beyond_the_end_is_malformed() -> None:
    data = memoryview(b"\x01\x07\x05abcd")
    with pytest.raises(
        MalformedMessage, match=r"tag 7: expected a length from 0 to 4 \(bytes left\), found 5, at byte 3 of 7"
    ):
        runtime.skip_tags(data, 1, 1, len(data))


def test_the_text_tables_take_out_what_their_index_says() -> None:
    data = memoryview(bytes(range(200)))
    for size in range(128):
        assert runtime.TEXT[size](data, 3)[0] == bytes(data[3 : 3 + size])
    for size in range(1, 128):
        assert runtime.COMPACT_TEXT[size](data, 0)[0] == bytes(data[: size - 1])


def test_failures_say_what_was_expected_what_was_found_and_where() -> None:
    with pytest.raises(
        MalformedMessage, match=r"^A\.b: expected a length from 0 to 6 \(bytes left\), found null, at byte 4 of 10$"
    ):
        runtime.fail_size("A", "b", -1, 4, 10)
    with pytest.raises(
        MalformedMessage,
        match=r"^A\.b: expected a count from 0 to 2 \(what fits .*6 bytes left\), found 9, at byte 4 of 10$",
    ):
        runtime.fail_count("A", "b", 9, 3, 4, 10)
    with pytest.raises(
        MalformedMessage, match=r"^A\.b: expected 1 \(present\) or -1 \(null\), found 4, at byte 2 of 3$"
    ):
        runtime.fail_marker("A", "b", 4, 2, 3)
    with pytest.raises(
        MalformedMessage, match=r"^A: expected the field of tag 3 to end at byte 9, it ended at byte 7$"
    ):
        runtime.fail_tag_size("A", 3, 7, 9)


def test_a_message_that_ends_too_early_is_malformed() -> None:
    cut = runtime.malformed("A", 2, 5, 8)
    assert str(cut) == "A v2: expected more bytes than the 3 found at byte 5 of 8"
