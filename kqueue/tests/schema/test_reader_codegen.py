"""Readers against bytes written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import MalformedMessage, TooManyItems
from kqueue.schema import (
    array,
    boolean,
    bytes_,
    counted_reader,
    decode,
    encode,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    reader,
    record_data,
    string,
    struct,
    uint16,
    uuid,
)
from kqueue.schema.field_types import field_type_of
from kqueue.schema.reader_codegen import least_size, reader_source
from kqueue.schema.structs import schema_of
from kqueue.tests.tables import for_each


@struct
class Part:
    number: int = field(int16)
    label: str = field(string)


@message(versions="0-1", flexible="1+")
class All:
    flag: bool = field(boolean)
    tiny: int = field(int8)
    port: int = field(uint16)
    big: int = field(int64)
    real: float = field(float64)
    id: bytes = field(uuid)
    text: str = field(string)
    blob: bytes | None = field(bytes_, nullable="0+")
    records: Any = field(record_data, nullable="0+")
    names: list[str] = field(array(string))
    ids: list[bytes] = field(array(uuid))
    numbers: list[int] | None = field(array(int32), nullable="0+")
    part: Part = field(Part)
    parts: list[Part] = field(array(Part))
    maybe: Part | None = field(Part, nullable="0+", default=None)
    tagged: int = field(int32, "1+", tag=2, default=-1)
    tagged_parts: list[Part] = field(array(Part), "1+", tag=4)


FIXED = "01 fe ffff 0000000000000005 3ff8000000000000 000102030405060708090a0b0c0d0e0f"
OLD = (
    f"{FIXED} 0002 6869 00000003 616263 ffffffff 00000002 0001 61 0000 00000001 {'11' * 16} 00000002 00000007 ffffffff "
    "0009 0001 78 00000001 000a 0001 79 ff"
)
NEW = (
    f"{FIXED} 03 6869 04 616263 00 03 02 61 01 02 {'11' * 16} 03 00000007 ffffffff "
    "0009 02 78 00 02 000a 02 79 00 01 000b 01 01 05 02 6162 00 "  # `maybe` has an unknown tag 5 of two bytes
    "03 02 04 00000008 03 01 ff 04 06 02 000c 02 7a 00"
)
EXPECTED = All(
    flag=True,
    tiny=-2,
    port=65535,
    big=5,
    real=1.5,
    id=bytes(range(16)),
    text="hi",
    blob=b"abc",
    names=["a", ""],
    ids=[b"\x11" * 16],
    numbers=[7, -1],
    part=Part(number=9, label="x"),
    parts=[Part(number=10, label="y")],
)


def test_every_kind_is_read_in_the_old_layout() -> None:
    assert decode(All, 0, bytes.fromhex(OLD)) == EXPECTED


def test_every_kind_is_read_in_the_flexible_layout_and_unknown_tags_are_skipped() -> None:
    text = NEW.replace("01 000b 01 01 05 02 6162 00 03", "01 000b 01 01 05 02 6162 03")
    decoded = decode(All, 1, bytes.fromhex(text))
    assert decoded.maybe == Part(number=11)
    assert decoded.tagged == 8
    assert decoded.tagged_parts == [Part(number=12, label="z")]
    decoded.maybe, decoded.tagged, decoded.tagged_parts = None, -1, []
    assert decoded == EXPECTED


def test_reader_reads_from_its_position_and_returns_the_end() -> None:
    data = memoryview(b"??" + bytes.fromhex(OLD) + b"!!")
    decoded, position = reader(All, 0)(data, 2)
    assert decoded == EXPECTED
    assert position == len(data) - 2


def test_records_are_a_view_and_bytes_a_copy() -> None:
    @message(versions="0")
    class Two:
        records: Any = field(record_data)
        blob: bytes = field(bytes_)

    data = bytearray(b"\0\0\0\2ab\0\0\0\2cd")
    decoded = decode(Two, 0, data)
    data[4:6] = b"AB"
    data[10:12] = b"CD"
    assert (bytes(decoded.records), decoded.blob) == (b"AB", b"cd")


@message(versions="0-1", flexible="1+")
class Strings:
    text: str = field(string)


@message(versions="0-1", flexible="1+")
class Numbers:
    numbers: list[int] = field(array(int32))


@message(versions="0-1", flexible="1+")
class Blobs:
    blob: bytes | None = field(bytes_, "0", nullable="0+")
    records: Any = field(record_data, "1+")


@message(versions="0-1", flexible="1+")
class Perhaps:
    part: Part | None = field(Part, nullable="1+", default=None)


@for_each("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 32767])
def test_strings_of_all_sizes(size: int) -> None:
    old = size.to_bytes(2, "big") + b"x" * size
    assert decode(Strings, 0, old).text == "x" * size


@for_each(
    "version, data, text",
    [
        (0, "0002 c328", "\ufffd("),
        (1, "03 ff62 00", "\ufffdb"),
        (0, "0005 61eda08062", "a\ufffdb"),  # a surrogate is one error for Java
        (0, "0082" + "61" * 129 + "ff", "a" * 129 + "\ufffd"),
        (1, "8301" + "61" * 129 + "ff" + "00", "a" * 129 + "\ufffd"),
    ],
)
def test_bytes_that_are_not_utf_8_are_replaced_as_in_kafka(version: int, data: str, text: str) -> None:
    assert decode(Strings, version, bytes.fromhex(data)).text == text
    assert counted_reader(Strings, version)(memoryview(bytes.fromhex(data)), 0, 10)[0].text == text


def test_items_are_limited_in_a_message_that_is_not_utf_8() -> None:
    data = memoryview(bytes.fromhex("02 ff 02 0a 00 0b 00"))
    assert counted_reader(Strings, 1)(data, 0, 2)[0].text == "\ufffd"
    with pytest.raises(TooManyItems):
        counted_reader(Strings, 1)(data, 0, 1)


def test_a_string_that_replacements_make_too_long_is_malformed() -> None:
    sized = (12_000).to_bytes(2, "big")
    assert len(decode(Strings, 0, sized + b"\xff" * 10_000 + b"a" * 2000).text) == 12_000
    with pytest.raises(MalformedMessage, match="at most 32767 bytes, found 36000 after"):
        decode(Strings, 0, sized + b"\xff" * 12_000)


def test_a_message_that_is_not_utf_8_and_ends_too_early_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="found null"):
        decode(Strings, 1, bytes.fromhex("00"))
    with pytest.raises(MalformedMessage, match="expected more bytes"):
        decode(Strings, 1, bytes.fromhex("02ff"))


@for_each(
    "cls, version, data, words",
    [
        (
            Strings,
            0,
            "ffff",
            r"Strings\.text: expected a length from 0 to 0 \(bytes left\), found null, at byte 2 of 2",
        ),
        (Strings, 0, "fffe", "found -2"),
        (Strings, 0, "0003 6162", r"Strings v0: expected more bytes than the 2 found at byte 2 of 4"),
        (Strings, 0, "0100 6162", r"expected a length from 0 to 2 \(bytes left\), found 256, at byte 2 of 4"),
        (Strings, 1, "00", "found null"),
        (Strings, 1, "ffffffff0f", "found 4294967294"),
        (Strings, 1, "ffffffff1f", "expected a varint of at most 32 bits"),
        (Strings, 1, "8180 02" + "61" * 32768 + "00", "expected a string of at most 32767 bytes, found 32768"),
        (Strings, 1, "02 61 01 00 05 00", r"tag 0: expected a length from 0 to 1 \(bytes left\), found 5"),
        (Strings, 1, "02 61 ffffffff0f", "expected more bytes than the 5 found at byte 2 of 7"),
        (
            Numbers,
            0,
            "7fffffff 00000000",
            r"expected a count from 0 to 1 \(what fits into the 4 bytes left\), found 2147483647",
        ),
        (Numbers, 0, "80000000", "found -2147483648"),
        (Numbers, 0, "ffffffff", "found null"),
        (Numbers, 1, "00 00", "found null"),
        (Numbers, 1, "03 00000000", r"expected a count from 0 to 1 .* found 2, at byte 1 of 5"),
        (Numbers, 0, "00000002 00000000 000000", r"expected a count from 0 to 1 .* found 2, at byte 4 of 11"),
        (
            Strings,
            0,
            "00c8" + "61" * 199,
            r"expected a length from 0 to 199 \(bytes left\), found 200, at byte 2 of 201",
        ),
        (
            Strings,
            1,
            "c901" + "61" * 199,
            r"expected a length from 0 to 199 \(bytes left\), found 200, at byte 2 of 201",
        ),
        (
            Blobs,
            0,
            "00000003 6162",
            r"Blobs\.blob: expected a length from 0 to 2 \(bytes left\), found 3, at byte 4 of 6",
        ),
        (Blobs, 0, "fffffffe", "found -2"),
        (Blobs, 1, "04 6162", r"Blobs\.records: expected a length from 0 to 2 \(bytes left\), found 3, at byte 1 of 3"),
        (Blobs, 1, "00 00", "found null"),
        (Perhaps, 1, "00 00", r"expected 1 \(present\) or -1 \(null\), found 0, at byte 0 of 2"),
        (All, 1, NEW[: NEW.index("03 02 04")] + "01 02 05 00000008 00", "expected"),
    ],
)
def test_lies_are_named(cls: type[Any], version: int, data: str, words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        decode(cls, version, bytes.fromhex(data))


def test_a_known_tag_must_end_where_its_size_says() -> None:
    @message(versions="0", flexible="0+")
    class Tagged:
        number: int = field(int32, tag=0)

    assert decode(Tagged, 0, bytes.fromhex("01 00 04 00000007")).number == 7
    with pytest.raises(MalformedMessage, match="expected the field of tag 0 to end at byte 8, it ended at byte 7"):
        decode(Tagged, 0, bytes.fromhex("01 00 05 00000007 00"))
    with pytest.raises(MalformedMessage, match="expected the field of tag 0 to end at byte 6, it ended at byte 7"):
        decode(Tagged, 0, bytes.fromhex("01 00 03 00000007"))


def test_a_field_that_keeps_the_old_length_in_a_flexible_version() -> None:
    @message(versions="0", flexible="0+")
    class Mixed:
        old: str | None = field(string, nullable="0+", compact=False)
        new: str = field(string)

    assert decode(Mixed, 0, bytes.fromhex("0001 61 02 62 00")) == Mixed(old="a", new="b")
    assert decode(Mixed, 0, bytes.fromhex("ffff 02 62 00")) == Mixed(old=None, new="b")


def test_least_sizes_are_those_of_empty_values() -> None:
    assert least_size(field_type_of(Part), 0, flexible=False) == 2 + 2
    assert least_size(field_type_of(Part), 0, flexible=True) == 2 + 1 + 1
    assert least_size(array(int32), 0, flexible=False) == 4
    assert least_size(string, 0, flexible=True) == 1
    assert least_size(field_type_of(Perhaps), 1, flexible=True) == 1 + 1


def test_neighbours_of_fixed_size_are_unpacked_together() -> None:
    text = reader_source(schema_of(All), 0, flexible=False).text()
    assert "= unpack_tbHqd16sh(buf, p)" in text
    assert "range" not in text.replace("for i in range(p, q, 16)", "")


@message(versions="0-1", flexible="1+")
class Nested:
    topics: list[All] = field(array(All))
    names: list[str] | None = field(array(string), nullable="0+")
    tagged: list[int] = field(array(int32), "1+", tag=1)


def counted(made: Any, version: int, room: int) -> Any:
    return counted_reader(type(made), version)(memoryview(encode(made, version)), 0, room)[0]


@for_each("version", [0, 1])
def test_counted_reader_counts_the_elements_of_all_arrays_and_the_tagged_fields(version: int) -> None:
    inner = All(names=["a", "b"], ids=[bytes(16)], numbers=[1, 2, 3], parts=[Part()], records=b"xyz", blob=b"1")
    if version:
        inner.tagged_parts = [Part(label="t")]
    made = Nested(topics=[inner, All(numbers=None)], names=["n"])
    if version:
        made.tagged = [7, 8]
    items = 2 + 7 + 1 + (1 + 1 + 1 + 2 if version else 0)
    assert counted(made, version, items) == decode(Nested, version, encode(made, version))
    for room in range(items):
        with pytest.raises(TooManyItems) as caught:
            counted(made, version, room)
        assert caught.value.excess >= 1


def test_counted_reader_counts_unknown_tags_and_builds_nothing_for_an_array_beyond_the_room() -> None:
    tags = b"".join(bytes((tag, 0)) for tag in range(5, 105))
    data = b"\x01" + b"\x00" + bytes((100,)) + tags
    read = counted_reader(Nested, 1)
    assert read(memoryview(data), 0, 100)[0] == Nested(names=None)
    with pytest.raises(TooManyItems, match="Nested.tagged fields: 100 items"):
        read(memoryview(data), 0, 99)
    huge = (1_000_000).to_bytes(4, "big") + bytes(4_000_000)
    with pytest.raises(TooManyItems, match=r"Numbers\.numbers: 1000000 items at byte 4 of 4000004 are 1 more"):
        counted_reader(Numbers, 0)(memoryview(huge), 0, 999_999)


def test_counted_reader_counts_the_tags_of_structs_that_know_none() -> None:
    many = b"\x80\x01" + b"".join(bytes((tag, 0)) for tag in range(128))
    data = b"\x02" + b"\x00\x01" + b"\x01" + many + b"\x00"
    read = counted_reader(Parts, 1)
    assert read(memoryview(data), 0, 129)[0] == Parts(parts=[Part(number=1)])
    with pytest.raises(TooManyItems, match="128 items"):
        read(memoryview(data), 0, 128)


@message(versions="0")
class Numbers:  # type: ignore[no-redef]
    numbers: list[int] = field(array(int32))


@message(versions="0-1", flexible="1+")
class Parts:
    parts: list[Part] = field(array(Part))
