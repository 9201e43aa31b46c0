from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.schema import decode, encode, field, int32, join, message, reader, struct, writer
from kqueue.tests.tables import for_each


@message(versions="1-2")
class Two:
    number: int = field(int32)


@struct
class Part:
    number: int = field(int32)


def test_functions_are_compiled_once_per_class_and_version() -> None:
    assert reader(Two, 1) is reader(Two, 1)
    assert reader(Two, 1) is not reader(Two, 2)
    assert writer(Two, 1) is writer(Two, 1)
    assert writer(Two, 1) is not writer(Two, 2)


@for_each("version", [0, 3, -1])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    for make in (reader, writer):
        with pytest.raises(UnsupportedVersion, match=f"Two has versions 1-2, not {version}"):
            make(Two, version)


def test_a_part_of_messages_has_no_reader_of_its_own() -> None:
    with pytest.raises(TypeError, match="Part'> is a part of messages"):
        reader(Part, 0)
    with pytest.raises(TypeError, match="is no struct"):
        encode("text", 0)


@for_each("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded(wrap: type[bytes]) -> None:
    assert decode(Two, 1, wrap(b"\0\0\0\5")) == Two(number=5)


def test_bytes_left_over_are_malformed() -> None:
    with pytest.raises(MalformedMessage, match="Two v1: expected the end at byte 4, found 2 bytes more"):
        decode(Two, 1, b"\0\0\0\5xy")


def test_a_writer_appends_to_what_is_there() -> None:
    chunks: list[object] = [b"head"]
    writer(Two, 1)(Two(number=1), chunks)
    assert join(chunks) == b"head\0\0\0\1"
