from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.collect.line_splitter import LinePiece, cut


def test_lines_and_their_ends() -> None:
    assert cut(b"a\n\r\nb\r\nc", 10) == [LinePiece(b"a", 2, True), LinePiece(b"", 2, True), LinePiece(b"b", 3, True)]
    assert cut(b"a\nc", 10, take_unfinished=True) == [LinePiece(b"a", 2, True), LinePiece(b"c", 1, False)]
    assert cut(b"a\nb\n", 10, count_max=1) == [LinePiece(b"a", 2, True)]


def test_long_lines_come_in_pieces() -> None:
    assert cut(b"abcd\n", 4) == [LinePiece(b"abcd", 5, True)]
    assert cut(b"abcd", 4) == []  # its end may be the next byte
    assert cut(b"abcde\nf\n", 4) == [LinePiece(b"abcd", 4, False), LinePiece(b"e", 2, True), LinePiece(b"f", 2, True)]


def test_no_character_is_cut_in_two() -> None:
    assert [piece.value.decode() for piece in cut("aä€😀\n".encode(), 5)] == ["aä", "€", "😀"]
    assert [piece.value for piece in cut(b"\x80" * 9 + b"\n", 4)] == [b"\x80" * 4, b"\x80" * 4, b"\x80"]  # no UTF-8


@given(st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), st.integers(4, 50), st.integers(0, 200))
def test_pieces_are_the_bytes_whatever_comes_when(data: bytes, line_bytes_max: int, first: int) -> None:
    pieces = cut(data, line_bytes_max, take_unfinished=True)
    assert sum(piece.size for piece in pieces) == len(data)
    assert all(len(piece.value) <= line_bytes_max for piece in pieces)
    early = cut(data[:first], line_bytes_max)
    late = cut(data[sum(piece.size for piece in early) :], line_bytes_max, take_unfinished=True)
    assert early + late == pieces
