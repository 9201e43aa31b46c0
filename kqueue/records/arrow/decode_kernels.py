"""Compiled kernel that decodes records to columns, over NumPy views of Arrow's buffers.

Nothing in a batch is trusted: each length is compared with the remaining bytes before it is
followed. A kernel returns WRONG for an invalid record, exactly where `kqueue.records.record`
raises. It writes only within the given arrays: before a record that does not fit it returns
GROW and the needed sizes. Needs `kqueue[fast]`.

Columns have Arrow's layout: offsets are one more than the values and begin with 0; validity has
a bit per value, lowest first.
"""

from __future__ import annotations

from typing import Any

from numba import int64

from kqueue.records.jit import compiled, inlined
from kqueue.records.record_kernels import NULL, WRONG, copy_bytes, read_record, read_varint

# answers
DONE, FULL, GROW = 0, 1, 2  # and WRONG

# `plan`: a row for each batch
START, END, BASE_OFFSET, DELTA_MAX, COUNT, BASE_TIME, IS_APPEND_TIME, APPEND_TIME = range(8)

# `limits`: which records are decoded, and how many
FROM_OFFSET, TO_OFFSET, SINCE, HAS_UNTIL, UNTIL, ROWS_MAX, BYTES_MAX, DATA_MAX = range(
    8
)  # the last bound of time counts if there is one

# `state`: position in the input, and fill levels of the output
BATCH, POS, NUMBER, DELTA, SIZE, ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, HEADER_BYTES = range(11)
KEY_NULLS, VALUE_NULLS, HEADER_NULLS = range(11, 14)
NEED = 14  # six more: rows, key bytes, value bytes, headers, name bytes, header bytes that GROW asks room for
STATE = 20

ROW_BYTES = 100  # about what a row takes beside its key, value and headers
NULL_BYTES = 8
HEADER_OVERHEAD = 16


@compiled
def _field(data: Any, pos: int, end: int) -> tuple[int, int]:
    """(where it begins, its size, -1: null) of what has its length before it; WRONG as the first:
    it leaves the record.
    """
    raw, pos = read_varint(data, pos, end)
    if pos < 0:
        return int64(WRONG), int64(0)
    if raw == NULL:
        return pos, int64(-1)
    if raw & 1 or raw >> 1 > end - pos:
        return int64(WRONG), int64(0)
    return pos, raw >> 1


@compiled
def _measure_headers(data: Any, pos: int, end: int, count: int) -> tuple[int, int, int]:
    """(position after them, bytes of names, bytes of values) of `count` headers; WRONG as the
    first: they leave the record.
    """
    names = values = int64(0)
    for _ in range(count):
        pos, size = _field(data, pos, end)
        if pos < 0 or size < 0:
            return int64(WRONG), int64(0), int64(0)
        names += size
        pos, value_size = _field(data, pos + size, end)
        if pos < 0:
            return int64(WRONG), int64(0), int64(0)
        if value_size > 0:
            values += value_size
            pos += value_size
    return pos, names, values


@compiled
def _has_long_time(data: Any, pos: int, limit: int) -> bool:
    """Return whether the timestamp delta of the valid record at `pos` has more than two bytes."""
    _, pos = read_varint(data, pos, limit)
    return bool(data[pos + 1] > 127 and data[pos + 2] > 127)


@inlined
def _read_whole_record(
    data: Any, pos: int, limit: int, delta_before: int, delta_max: int, base_time: int, is_append_time: bool
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """The record at `pos`, all of it looked at; WRONG as the first: it is none, exactly where
    `decode_records` raises.

    Returns: its end, time (by the producer), offset delta; where key and value begin and their
    sizes (-1: null); where the headers begin, how many they are, the bytes of their names and
    values.
    """
    none = int64(0)
    wrong = int64(WRONG), none, none, none, none, none, none, none, none, none, none
    end, time_delta, delta, key, key_size = read_record(data, pos, limit, delta_before, delta_max)
    if end < 0:
        return wrong
    time = base_time + time_delta
    overflows = ((base_time ^ time) & (time_delta ^ time)) < 0
    # As in `decode_records`: with LogAppendTime only deltas of three bytes or more are checked.
    if overflows and (not is_append_time or _has_long_time(data, pos, limit)):
        return wrong
    value, value_size = _field(data, key + max(key_size, 0), end)
    if value < 0:
        return wrong
    raw, first = read_varint(data, value + max(value_size, 0), end)
    if first < 0 or raw & 1:
        return wrong
    count = raw >> 1
    at, name_bytes, header_bytes = (
        (first, int64(0), int64(0)) if count == 0 else _measure_headers(data, first, end, count)
    )
    if at != end:
        return wrong
    return end, time, delta, key, key_size, value, value_size, first, count, name_bytes, header_bytes


@compiled
def _put(data: Any, start: int, size: int, bits: Any, target: Any, row: int, at: int) -> int:
    """Append a value to its column: its bytes, and the bit that says that it is not null. Returns
    the bytes of the column.
    """
    if size < 0:
        return at
    bits[row >> 3] |= 1 << (row & 7)
    copy_bytes(data, start, size, target, at)
    return at + size


@compiled
def _put_headers(
    data: Any, at: int, end: int, count: int, state: Any,
    name_ends: Any, names: Any, header_ends: Any, header_bits: Any, headers: Any,
) -> None:  # fmt: skip
    """Append headers that have been measured to their columns."""
    row, name_at, header_at = state[HEADERS], state[NAME_BYTES], state[HEADER_BYTES]
    for _ in range(count):
        at, size = _field(data, at, end)
        copy_bytes(data, at, size, names, name_at)
        name_at += size
        name_ends[row + 1] = name_at
        at, size = _field(data, at + size, end)
        header_at = _put(data, at, size, header_bits, headers, row, header_at)
        header_ends[row + 1] = header_at
        at += max(size, 0)
        state[HEADER_NULLS] += size < 0
        row += 1
    state[HEADERS], state[NAME_BYTES], state[HEADER_BYTES] = row, name_at, header_at


@compiled
def decode(
    data: Any, plan: Any, limits: Any, state: Any, row_counts: Any, offsets: Any, times: Any,
    key_ends: Any, key_bits: Any, keys: Any, value_ends: Any, value_bits: Any, values: Any,
    list_ends: Any, name_ends: Any, names: Any, header_ends: Any, header_bits: Any, headers: Any,
) -> int:  # fmt: skip
    """Append the records of the batches in `plan`, from where `state` stands.

    `row_counts`: rows decoded from each. Returns: DONE; FULL: rows or bytes are as many as
    there may be; GROW: `state` says how much room the next record needs; WRONG: it is none, or
    bytes are left over after the last; the rows before it are complete.
    """
    batch, pos, number, delta = state[BATCH], state[POS], state[NUMBER], state[DELTA]
    size, rows, key_at, value_at = state[SIZE], state[ROWS], state[KEY_BYTES], state[VALUE_BYTES]
    rows_room = min(len(offsets), len(times), len(key_ends) - 1, len(value_ends) - 1, len(list_ends) - 1)
    rows_room = min(rows_room, 8 * len(key_bits), 8 * len(value_bits))
    headers_room = min(len(name_ends) - 1, len(header_ends) - 1, 8 * len(header_bits))
    answer = int64(DONE)
    while batch < len(plan) and answer == DONE:
        start, limit, base_offset, delta_max = (
            plan[batch, START],
            plan[batch, END],
            plan[batch, BASE_OFFSET],
            plan[batch, DELTA_MAX],
        )
        base_time, is_append_time, count = plan[batch, BASE_TIME], plan[batch, IS_APPEND_TIME] != 0, plan[batch, COUNT]
        if start < 0 or limit > len(data):
            answer = int64(WRONG)
        if number == 0:
            pos, delta = start, int64(-1)
        while number < count and answer == DONE:
            end, time, next_delta, key, key_size, value, value_size, first, header_count, name_bytes, header_bytes = (
                _read_whole_record(data, pos, limit, delta, delta_max, base_time, is_append_time)
            )
            if end < 0:
                answer = int64(WRONG)
                break
            if is_append_time:
                time = plan[batch, APPEND_TIME]
            offset = base_offset + next_delta
            is_in = limits[FROM_OFFSET] <= offset < limits[TO_OFFSET] and time >= limits[SINCE]
            if is_in and (limits[HAS_UNTIL] == 0 or 0 <= time < limits[UNTIL]):
                key_next, value_next = key_at + max(key_size, 0), value_at + max(value_size, 0)
                header_next, names_next = state[HEADERS] + header_count, state[NAME_BYTES] + name_bytes
                header_values_next = state[HEADER_BYTES] + header_bytes
                if rows and max(max(key_next, value_next), max(names_next, header_values_next)) > limits[DATA_MAX]:
                    answer = int64(FULL)
                    break
                if (
                    rows >= rows_room or key_next > len(keys) or value_next > len(values) or header_next > headers_room
                    or names_next > len(names) or header_values_next > len(headers)
                ):  # fmt: skip
                    state[NEED], state[NEED + 1], state[NEED + 2] = rows + 1, key_next, value_next
                    state[NEED + 3], state[NEED + 4], state[NEED + 5] = header_next, names_next, header_values_next
                    answer = int64(GROW)
                    break
                offsets[rows] = offset
                times[rows] = time
                key_at = _put(data, key, key_size, key_bits, keys, rows, key_at)
                value_at = _put(data, value, value_size, value_bits, values, rows, value_at)
                if header_count:
                    _put_headers(
                        data, first, end, header_count, state, name_ends, names, header_ends, header_bits, headers
                    )
                state[KEY_NULLS] += key_size < 0
                state[VALUE_NULLS] += value_size < 0
                size += (
                    ROW_BYTES
                    + (NULL_BYTES if key_size < 0 else key_size)
                    + (NULL_BYTES if value_size < 0 else value_size)
                )
                size += name_bytes + header_bytes + HEADER_OVERHEAD * header_count
                rows += 1
                key_ends[rows] = key_at
                value_ends[rows] = value_at
                list_ends[rows] = state[HEADERS]
                row_counts[batch] += 1
                if rows >= limits[ROWS_MAX] or size >= limits[BYTES_MAX]:
                    answer = int64(FULL)
            pos, delta = end, next_delta
            number += 1
        if answer == DONE and pos != limit:
            answer = int64(WRONG)
        if answer == DONE:
            batch += 1
            number = int64(0)
    state[BATCH], state[POS], state[NUMBER], state[DELTA] = batch, pos, number, delta
    state[SIZE], state[ROWS], state[KEY_BYTES], state[VALUE_BYTES] = size, rows, key_at, value_at
    return int(answer)
