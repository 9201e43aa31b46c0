from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.tests.tables import for_each
from kqueue.wire.frame import frame_length, frame_size

WRONG_LENGTHS = [
    (b"\xff\xff\xff\xff", "-1"),
    (b"\x80\0\0\0", "-2147483648"),
    (b"\0\0\0\x0b", "11"),
    (b"\x7f\xff\xff\xff", "2147483647"),
]


@for_each("data, message", WRONG_LENGTHS)
def test_a_wrong_length_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedMessage, match=f"expected a frame of 0 to 10 bytes, found {message}$"):
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
