"""Compiled kernels that read the records of a batch. Needs `kqueue[fast]`.

They read as closely as `record.decode_records`. Nothing in a batch is trusted: each length is
compared with the remaining bytes before it is followed, and a kernel returns WRONG for an invalid
record.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint64

from kqueue.records.jit import compiled, inlined

WRONG = -1
NULL = 1  # the varint of -1


@compiled
def read_varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """Return the number of 32 bits at `pos`, still zigzag-encoded, and the position after it.

    WRONG as position: the varint exceeds the data or 32 bits.
    """
    raw = int64(0)
    shift = int64(0)
    while pos < end and shift < 35:
        byte = int64(data[pos])
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw, pos) if raw >> 32 == 0 else (int64(0), int64(WRONG))
        shift += 7
    return int64(0), int64(WRONG)


@compiled
def read_varlong(data: Any, pos: int, end: int) -> tuple[int, int]:
    """Return the signed number of 64 bits at `pos` and the position after it.

    WRONG as position: the varint exceeds the data or 64 bits.
    """
    raw = uint64(0)
    shift = uint64(0)
    while pos < end and shift < uint64(70):
        byte = uint64(data[pos])
        pos += 1
        if shift == uint64(63) and byte > uint64(1):
            break
        raw |= (byte & uint64(0x7F)) << shift
        if byte < uint64(0x80):
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), pos
        shift += uint64(7)
    return int64(0), int64(WRONG)


@compiled
def copy_bytes(source: Any, start: int, size: int, target: Any, at: int) -> None:
    """Copy `size` bytes to `target[at:]`.

    The loop has unsigned indexes, because LLVM turns only those into a block move; slices are slow
    too.
    """
    source_start, target_start = uint64(start), uint64(at)
    for index in range(uint64(size)):
        target[target_start + index] = source[source_start + index]


@inlined
def read_record(data: Any, pos: int, limit: int, delta_before: int, delta_max: int) -> tuple[int, int, int, int, int]:
    """Read the record at `pos` up to its key.

    Returns: its end, timestamp delta, offset delta, position of the key, bytes of the key (-1:
        null). WRONG as the end: the record is invalid.
    """
    wrong = int64(WRONG), int64(0), int64(0), int64(0), int64(0)
    raw, pos = read_varint(data, pos, limit)
    end = pos + (raw >> 1)
    if pos < 0 or raw & 1 or end > limit:
        return wrong
    time_delta, pos = read_varlong(data, pos + 1, end)  # skip the unused attributes
    if pos < 0:
        return wrong
    raw, pos = read_varint(data, pos, end)
    delta = raw >> 1
    if pos < 0 or raw & 1 or delta <= delta_before or delta > delta_max:
        return wrong
    raw, pos = read_varint(data, pos, end)
    if pos < 0:
        return wrong
    if raw == NULL:
        return end, time_delta, delta, pos, int64(-1)
    if raw & 1 or pos + (raw >> 1) >= end:
        return wrong
    return end, time_delta, delta, pos, raw >> 1
