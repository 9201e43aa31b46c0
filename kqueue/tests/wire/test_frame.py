from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.wire.frame import Cutter, frame_length, frame_size


def framed(frame: bytes) -> bytes:
    return frame_length([frame]) + frame


@given(st.lists(st.binary(max_size=20), max_size=8), st.lists(st.integers(0, 100), max_size=6))
def test_a_stream_is_cut_into_the_frames_it_was_made_of_however_it_arrives(
    frames: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(framed, frames))
    cutter, found, start = Cutter(size_max=20), [], 0
    for end in [*sorted(cuts), len(stream)]:
        found += cutter.feed(stream[start:end])
        start = max(start, end)
    assert found == frames
    assert cutter.pending == 0


def test_a_part_of_a_frame_waits() -> None:
    cutter = Cutter(size_max=10)
    assert list(cutter.feed(b"\0\0\0\3ab")) == []
    assert cutter.pending == 6
    assert list(cutter.feed(b"c\0")) == [b"abc"]
    assert cutter.pending == 1


LIES = [
    (b"\xff\xff\xff\xff", "-1"),
    (b"\x80\0\0\0", "-2147483648"),
    (b"\0\0\0\x0b", "11"),
    (b"\x7f\xff\xff\xff", "2147483647"),
]


@pytest.mark.parametrize(("data", "found"), LIES)
def test_a_length_that_lies_is_refused_before_anything_is_read(data: bytes, found: str) -> None:
    with pytest.raises(MalformedMessage, match=f"expected a frame of 0 to 10 bytes, found {found}$"):
        list(Cutter(size_max=10).feed(data))
    with pytest.raises(MalformedMessage):
        frame_size(b"xx" + data, 2, 10)


def test_lengths_up_to_the_maximum_are_fine() -> None:
    assert frame_size(b"\0\0\0\x0a", 0, 10) == 10
    assert frame_size(memoryview(b"\0\0\0\0"), 0, 10) == 0


class Huge:
    is_region = True

    def __len__(self) -> int:
        return 2**31 - 10

    def read(self) -> bytes:
        raise AssertionError("its length is enough")


def test_the_length_covers_all_chunks() -> None:
    assert frame_length([b"ab", bytearray(3), memoryview(b"c")]) == b"\0\0\0\6"
    assert frame_length([]) == b"\0\0\0\0"
    assert frame_length([Huge(), bytes(9)]) == b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedMessage, match="below 2\\^31"):
        frame_length([Huge(), bytes(10)])
