"""Bytes of a file cut into lines: pure, and the same however the bytes came in."""

from __future__ import annotations

from typing import NamedTuple


class LinePiece(NamedTuple):
    """A line, or a part of one, without its line end.

    size: how many bytes of the file it stands for, line end included. ended: a line end followed
    it; False: the line goes on.
    """

    value: bytes
    size: int
    ended: bool


def cut(data: bytes, line_bytes_max: int, *, take_rest: bool = False, count_max: int | None = None) -> list[LinePiece]:
    """The lines at the beginning of `data`; a last one without its line feed is left out, unless
    `take_rest`.

    A line feed ends a line, and a carriage return before it belongs to the end. A line above
    `line_bytes_max` comes in pieces of so many bytes, or up to three fewer, so that no character of
    UTF-8 is cut in two.
    """
    pieces: list[LinePiece] = []
    start = 0
    while start < len(data) and (count_max is None or len(pieces) < count_max):
        end = data.find(b"\n", start, start + line_bytes_max + 1)
        if end >= 0:
            pieces.append(LinePiece(data[start:end].removesuffix(b"\r"), end + 1 - start, True))
        elif len(data) - start > line_bytes_max:
            value = _whole_characters(data[start : start + line_bytes_max], data[start + line_bytes_max])
            pieces.append(LinePiece(value, len(value), False))
        elif take_rest:
            pieces.append(LinePiece(data[start:], len(data) - start, False))
        else:
            break
        start += pieces[-1].size
    return pieces


def _whole_characters(piece: bytes, following: int) -> bytes:
    """`piece` without the beginning of a UTF-8 character that goes on in the byte that follows; all
    of it if that is no UTF-8.
    """
    if following & 0xC0 != 0x80:
        return piece
    for back in range(1, min(4, len(piece))):
        byte = piece[-back]
        if byte & 0xC0 == 0xC0:
            return piece[:-back]
        if byte & 0xC0 != 0x80:
            break
    return piece
