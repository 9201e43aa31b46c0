"""Zigzag varints of records of magic 2: 7 bits per byte, low bits first, the sign in bit 0.

Hot loops decode one- and two-byte varints inline and call `read_raw` for longer ones.
"""

from __future__ import annotations

from kqueue.base.errors import CorruptBatch, InvalidRecord

_CACHED_MAX = 4096  # numbers that `VARINTS` caches: common deltas and lengths, at most 0.5 MB


def read_raw(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """Return the unsigned number at `pos`, still zigzag-encoded, and the position after it.

    Args: bits: 32 (at most 5 bytes) or 64 (at most 10 bytes).
    Raises:
        CorruptBatch: the varint has more bytes or bits.
        IndexError: the data ends within the varint.
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


def encode(value: int) -> bytes:
    """Return the varint bytes of `value`. Raises: InvalidRecord: it exceeds 64 bits."""
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
    """`varints[n]` is `encode(n)`. Small numbers are cached, so they cost one dictionary lookup."""

    def __missing__(self, value: int) -> bytes:
        encoded = encode(value)
        if -_CACHED_MAX <= value < _CACHED_MAX:
            self[value] = encoded
        return encoded


VARINTS = Varints()
