"""Writers against bytes written out by hand, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import UnencodableMessage, UnsupportedVersion
from kqueue.schema import (
    Chunk,
    array,
    boolean,
    decode,
    encode,
    field,
    float64,
    int8,
    int16,
    int32,
    message,
    record_data,
    shortened,
    string,
    struct,
    uint16,
    uuid,
    writer,
)
from kqueue.schema.structs import schema_of
from kqueue.schema.writer_codegen import writer_source
from kqueue.tests.tables import for_each


@struct
class Part:
    number: int = field(int16)
    note: str | None = field(string, nullable="0+", default=None)
    extra: list[int] | None = field(array(int8), "1+", nullable="1+", ignorable=True)


@message(versions="0-2", flexible="1+")
class Sample:
    flag: bool = field(boolean)
    name: str = field(string)
    real: float = field(float64, "0")
    ids: list[bytes] = field(array(uuid), "2+")
    parts: list[Part] = field(array(Part))
    maybe: Part | None = field(Part, nullable="0+", default=None)
    words: list[str] | None = field(array(string), nullable="1+")
    tag_a: Part = field(Part, "1+", tag=0)
    tag_b: list[int] | None = field(array(int16), "1+", nullable="1+", tag=1)
    tag_c: str | None = field(string, "1+", nullable="1+", tag=2, default=None)


def hexed(message: Any, version: int) -> str:
    return encode(message, version).hex()


def test_the_old_layout() -> None:
    sample = Sample(
        flag=True, name="hi", real=1.5, parts=[Part(number=1, note="n")], maybe=Part(number=2), words=["w", ""]
    )
    expected = "01 0002 6869 3ff8000000000000 00000001 0001 0001 6e 01 0002 ffff 00000002 0001 77 0000"
    assert hexed(sample, 0) == expected.replace(" ", "")


@message(versions="0-1", flexible="1+")
class Refusal:
    name: str = field(string)
    words: str | None = shortened(field(string, nullable="0+", default=None))


@for_each("version", [0, 1])
def test_only_a_shortened_field_takes_a_text_that_is_too_long(version: int) -> None:
    long = "<" + "n" * 40_000 + ">"
    words = decode(Refusal, version, encode(Refusal(words=long), version)).words
    assert words is not None
    assert len(words) <= 32767
    assert (words[:2], words[-2:]) == ("<n", "n>")
    with pytest.raises(UnencodableMessage):
        encode(Refusal(name=long), version)


def test_the_flexible_layout() -> None:
    sample = Sample(
        name="hi", ids=[b"\x11" * 16], parts=[Part(number=1, note="n", extra=[5]), Part(extra=None)], words=None
    )
    parts = "03 0001 02 6e 02 05 00 0000 00 00 00"
    assert hexed(sample, 2) == f"00 03 6869 02 {'11' * 16} {parts} ff 00 00".replace(" ", "")


def test_tags_are_written_where_not_default() -> None:
    sample = Sample(tag_a=Part(number=3), tag_b=[1], tag_c="")
    assert hexed(sample, 1) == "00 01 01 ff 01 03 00 05 0003 00 01 00 01 03 02 0001 02 01 01".replace(" ", "")
    assert hexed(Sample(tag_b=None), 1) == "00 01 01 ff 01 01 01 01 00".replace(" ", "")
    assert hexed(Sample(tag_a=Part()), 1) == hexed(Sample(), 1)


@for_each("count", [0, 1, 126, 127, 128, 16383, 16384])
def test_lists_and_texts_of_all_sizes(count: int) -> None:
    sample = Sample(name="x" * count, parts=[Part(number=7)] * count, words=["y"] * count, tag_b=[3] * count)
    for version in (1, 2):
        assert decode(Sample, version, encode(sample, version)) == sample


@message(versions="0-1", flexible="1+")
class Holder:
    index: int = field(int32)
    records: Any = field(record_data, nullable="0+")
    after: int = field(int8)


@for_each("size", [0, 1, 126, 127, 128, 16382, 16383, 2097150, 2097151, 2097152])
def test_records_of_all_sizes(size: int) -> None:
    for version in (0, 1):
        holder = Holder(index=5, records=bytes(size), after=3)
        assert decode(Holder, version, encode(holder, version)) == holder


class Region:
    """Bytes elsewhere, as storage hands them up."""

    is_region = True

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        return self.data


@for_each("version", [0, 1])
def test_a_region_is_handed_on_untouched_as_a_chunk_of_its_own(version: int) -> None:
    region = Region(b"abc")
    chunks: list[Chunk] = []
    writer(Holder, version)(Holder(records=region, after=9), chunks)
    assert [chunk for chunk in chunks if chunk is region] == [region]
    assert encode(Holder(records=region, after=9), version) == encode(Holder(records=b"abc", after=9), version)


@for_each("wrap", [bytes, bytearray, memoryview])
def test_records_are_never_copied(wrap: Any) -> None:
    data = wrap(b"x" * 1000)
    chunks: list[Chunk] = []
    writer(Holder, 1)(Holder(records=data), chunks)
    assert any(chunk is data for chunk in chunks)


@for_each(
    "sample, version, words",
    [
        (Sample(ids=[bytes(16)]), 1, r"Sample\.ids is \[.*\], which only versions 2\+ carry, not 1"),
        (Sample(real=2.0), 1, r"Sample\.real is 2.0, which only versions 0 carry, not 1"),
        (Sample(tag_c="x"), 0, r"Sample\.tag_c is 'x', which only versions 1\+ carry, not 0"),
        (Sample(tag_a=Part(number=1)), 0, "tag_a"),
        (Sample(tag_b=None), 0, "tag_b"),
        (Sample(words=None), 0, r"Sample\.words is None, which only versions 1\+ can say, not 0"),
    ],
)
def test_value_unknown_to_a_version_is_refused(sample: Sample, version: int, words: str) -> None:
    with pytest.raises(UnsupportedVersion, match=words):
        encode(sample, version)


def test_ignorable_or_default_value_is_dropped_in_older_versions() -> None:
    assert encode(Sample(parts=[Part(extra=[1])]), 0) == encode(Sample(parts=[Part()]), 0)
    assert encode(Sample(tag_a=Part(number=0)), 0) == encode(Sample(), 0)


@message(versions="0-1", flexible="1+")
class Narrow:
    tiny: int = field(int8)
    port: int = field(uint16)
    id: bytes = field(uuid)
    text: str = field(string)
    numbers: list[int] = field(array(int32))


@for_each("version", [0, 1])
@for_each(
    "wrong",
    [
        {"tiny": 128},
        {"tiny": None},
        {"tiny": "1"},
        {"port": -1},
        {"id": b"short"},
        {"id": None},
        {"text": None},
        {"text": "x" * 32768},
        {"text": "\ud800"},
        {"text": 5},
        {"numbers": None},
        {"numbers": [2**31]},
        {"numbers": ["x"]},
        {"numbers": 3},
    ],
)
def test_a_value_that_its_field_cannot_carry_is_refused(wrong: dict[str, Any], version: int) -> None:
    with pytest.raises(UnencodableMessage):
        encode(Narrow(**wrong), version)


@struct
class Result:
    code: int = field(int16)
    parts: list[Part] = field(array(Part), ignorable=True)
    words: str | None = field(string, nullable="0+", default=None)
    more: list[Part] | None = field(array(Part), nullable="0+", default=None)


@message(versions="0-1", flexible="1+")
class Results:
    results: list[Result] = field(array(Result))


def test_a_struct_that_is_mostly_empty_is_packed_at_once() -> None:
    text = writer_source(schema_of(Result), 1, flexible=True).text()
    assert "w(pack_hBBBB(o.code, 1, 0, 0 if o.more is None else 1, 0))" in text


def test_full_and_mostly_empty_structs_side_by_side() -> None:
    part = Part(number=4, note="n")
    mixed = [
        Result(code=1),
        Result(code=2, more=[]),
        Result(code=3, parts=[part]),
        Result(code=4, words=""),
        Result(code=5, parts=[part], words="w", more=[part]),
    ]
    for version in (0, 1):
        assert decode(Results, version, encode(Results(results=mixed), version)).results == mixed
