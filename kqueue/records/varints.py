"""Zigzag varints, as the records of magic 2 use them: 7 bits a byte, low bits first, the sign in
bit 0.

Reading hot loops inline the one- and two-byte cases and come here for the longer ones.
"""

from __future__ import annotations

from kqueue.base.errors import CorruptBatch, InvalidRecord

_CACHED_MAX = (
    4096  # what `VARINTS` remembers: enough for the deltas and lengths of common records, half a megabyte at most
)


def read_raw(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """The unsigned number at `pos`, still zigzagged, and the position after it.

    Args: bits: 32 (at most 5 bytes) or 64 (at most 10).
    Raises: CorruptBatch: more bytes or more bits than that. IndexError: the data ends first.
    """
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise CorruptBatch(f"a varint of more than {bits} bits before position {pos} of the records")
    if value >> bits:
        raise CorruptBatch(f"a varint of more than {bits} bits before position {pos} of the records")
    return value, pos


def unzigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def encode(value: int) -> bytes:
    """The bytes of `value`. Raises InvalidRecord: not -2**63 <= value < 2**63."""
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw >> 64:
        raise InvalidRecord(f"{value} does not fit in 64 bits")
    out = bytearray()
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


class Varints(dict[int, bytes]):
    """`varints[n]` is `encode(n)`; small numbers are remembered, which makes it a dictionary
    look-up.
    """

    def __missing__(self, value: int) -> bytes:
        encoded = encode(value)
        if -_CACHED_MAX <= value < _CACHED_MAX:
            self[value] = encoded
        return encoded


VARINTS = Varints()
