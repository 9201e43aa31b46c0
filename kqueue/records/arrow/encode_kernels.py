"""Compiled kernel that encodes columns to records, over NumPy views of Arrow's buffers.

Each offset is compared with the data before it is followed. Nothing is written beyond `out`. Needs
`kqueue[fast]`.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint64

from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.records.jit import compiled
from kqueue.records.record_kernels import WRONG, copy_bytes

RECORDS_MAX = 2**31 - 1 - BATCH_OVERHEAD  # bytes of a batch's records


@compiled
def _is_set(bits: Any, place: int) -> bool:
    """Whether there is a value; no bits at all: there is one everywhere."""
    return bool(len(bits) == 0 or (bits[place >> 3] >> (place & 7)) & 1 != 0)


@compiled
def _varint_size(raw: int) -> Any:
    size = int64(1)
    while raw > uint64(0x7F):
        raw >>= uint64(7)
        size += 1
    return size


@compiled
def _zigzag(number: int) -> Any:
    return uint64(number) << uint64(1) ^ uint64(number >> 63)


@compiled
def _write_varint(out: Any, at: int, raw: int) -> int:
    """Returns the position after it."""
    while raw > uint64(0x7F):
        out[at] = (raw & uint64(0x7F)) | uint64(0x80)
        raw >>= uint64(7)
        at += 1
    out[at] = raw
    return at + 1


@compiled
def _write_field(out: Any, at: int, data: Any, start: int, size: int) -> int:
    """A length, -1 = null, and as many bytes. Returns the position after it."""
    at = _write_varint(out, at, _zigzag(size))
    copy_bytes(data, start, max(size, 0), out, at)
    return at + max(size, 0)


@compiled
def _extent(ends: Any, bits: Any, shift: int, data: Any, place: int) -> tuple[int, int]:
    """(where a value begins, its size, -1: null); WRONG as the first: it leaves the data. `shift`:
    the first value's place in `bits`.
    """
    if not _is_set(bits, shift + place):
        return int64(0), int64(-1)
    start, end = int64(ends[place]), int64(ends[place + 1])
    return (start, end - start) if 0 <= start <= end <= len(data) else (int64(WRONG), int64(0))


@compiled
def _field_size(size: int) -> Any:
    return _varint_size(_zigzag(size)) + max(size, 0)


@compiled
def encode(
    times: Any, key_ends: Any, key_bits: Any, keys: Any, value_ends: Any, value_bits: Any, values: Any,
    list_ends: Any, list_bits: Any, name_ends: Any, names: Any, header_ends: Any, header_bits: Any, headers: Any,
    shifts: Any, row: int, rows_max: int, bytes_max: int, out: Any,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Write the records of the rows from `row` on, as many as one batch takes, to `out`.

    Args: bits: of validity, empty: no nulls; `shifts`: where they begin for keys, values, lists and
    headers' values. `list_ends` empty: no headers. bytes_max: of all records but the first.
    Returns: (records, their bytes, base time, greatest time). GROW: 0 records, and the bytes that
    the first needs where `out` has less. WRONG as the first: columns that don't fit together, times
    too far apart, a record too large for its format.
    """
    wrong = int64(WRONG), int64(0), int64(0), int64(0)
    no_bits = key_bits[:0]
    bytes_used = record_count = int64(0)
    base_time = max_time = int64(times[row])
    while row < len(times) and record_count < rows_max:
        time = times[row]
        time_delta = time - base_time
        if ((time ^ base_time) & (time ^ time_delta)) < 0:
            return wrong
        key, key_size = _extent(key_ends, key_bits, shifts[0], keys, row)
        value, value_size = _extent(value_ends, value_bits, shifts[1], values, row)
        first = last = int64(0)
        if len(list_ends) and _is_set(list_bits, shifts[2] + row):
            first, last = int64(list_ends[row]), int64(list_ends[row + 1])
        if (
            key < 0
            or value < 0
            or not 0 <= first <= last
            or (last > first and last >= min(len(name_ends), len(header_ends)))
        ):
            return wrong
        size = (
            1
            + _varint_size(_zigzag(time_delta))
            + _varint_size(_zigzag(record_count))
            + _field_size(key_size)
            + _field_size(value_size)
        )
        size += _varint_size(_zigzag(last - first))
        for place in range(first, last):
            name, name_size = _extent(name_ends, no_bits, 0, names, place)
            content, content_size = _extent(header_ends, header_bits, shifts[3], headers, place)
            if name < 0 or content < 0:
                return wrong
            size += _field_size(name_size) + _field_size(content_size)
        whole = size + _varint_size(_zigzag(size))
        if record_count and bytes_used + whole > bytes_max:
            break
        if bytes_used + whole > RECORDS_MAX:
            return wrong
        if bytes_used + whole > len(out):
            return int64(0), bytes_used + whole, int64(0), int64(0)
        at = _write_varint(out, bytes_used, _zigzag(size))
        out[at] = 0
        at = _write_varint(out, at + 1, _zigzag(time_delta))
        at = _write_varint(out, at, _zigzag(record_count))
        at = _write_field(out, at, keys, key, key_size)
        at = _write_field(out, at, values, value, value_size)
        at = _write_varint(out, at, _zigzag(last - first))
        for place in range(first, last):
            name, name_size = _extent(name_ends, no_bits, 0, names, place)
            content, content_size = _extent(header_ends, header_bits, shifts[3], headers, place)
            at = _write_field(out, at, names, name, name_size)
            at = _write_field(out, at, headers, content, content_size)
        bytes_used = at
        max_time = max(max_time, time)
        record_count += 1
        row += 1
    return record_count, bytes_used, base_time, max_time
