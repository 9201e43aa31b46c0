"""Splits bytes into lines: a pure function, independent of how the bytes arrived."""

from __future__ import annotations

from typing import NamedTuple


class LinePiece(NamedTuple):
    """A line or a part of one, without its line end.

    `size`: bytes of the file that it covers, with the line end. `ended`: a line end followed;
    False: the line continues.
    """

    value: bytes
    size: int
    ended: bool


def cut(
    data: bytes, line_bytes_max: int, *, take_unfinished: bool = False, count_max: int | None = None
) -> list[LinePiece]:
    """Return the lines at the beginning of `data`.

    A line ends with a line feed; a carriage return before it belongs to the line end. A line above
    `line_bytes_max` is split into parts of that size, or up to three bytes fewer to keep UTF-8
    characters whole.

    Args:
        take_unfinished: also return a last line without a line feed.
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
        elif take_unfinished:
            pieces.append(LinePiece(data[start:], len(data) - start, False))
        else:
            break
        start += pieces[-1].size
    return pieces


def _whole_characters(piece: bytes, following: int) -> bytes:
    """Return `piece` without an incomplete UTF-8 character at its end.

    `following` is the next byte. Bytes that are not UTF-8 are returned unchanged.
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
