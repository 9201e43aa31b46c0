"""The loop from records to columns, compiled: over NumPy views of the bytes of records and of Arrow's buffers.

Nothing read from a batch is trusted: each length is compared with what is left before it is followed, and where a record does not add up
a kernel answers WRONG, exactly where `kqueue.records.record` raises. Nothing is written beyond the arrays that are given: a kernel stops
with GROW before a record that does not fit, and says what would. Needs `kqueue[fast]`.

Positions of columns, as in Arrow: as many and one more, beginning with 0; a bit for each value that is not null, the lowest first.
"""

from __future__ import annotations

from typing import Any

from numba import int64

from kqueue.records.compiled import WRONG, compiled, copy_bytes, read_varint, read_varlong

# answers
DONE, FULL, GROW = 0, 1, 2  # and WRONG

# `plan`: a row for each batch
START, END, BASE_OFFSET, DELTA_MAX, COUNT, BASE_TIME, IS_APPEND_TIME, APPEND_TIME = range(8)

# `limits`: which records are taken, and how many
FROM_OFFSET, TO_OFFSET, SINCE, HAS_UNTIL, UNTIL, ROWS_MAX, BYTES_MAX, DATA_MAX = range(8)  # the last bound of time counts if there is one

# `state`: where it stands, and what has been filled
BATCH, POS, NUMBER, DELTA, SIZE, ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, HEADER_BYTES = range(11)
KEY_NULLS, VALUE_NULLS, HEADER_NULLS = range(11, 14)
NEED = 14  # six more: rows, key bytes, value bytes, headers, name bytes, header bytes that GROW asks room for
STATE = 20

ROW_BYTES = 100  # about what a row takes beside its key, value and headers
NULL_BYTES = 8
HEADER_OVERHEAD = 16
_NULL = 1  # a varint of -1


@compiled
def _field(data: Any, pos: int, end: int) -> tuple[int, int]:
    """(where it begins, its size, -1: null) of what has its length before it; WRONG as the first: it leaves the record."""
    raw, pos = read_varint(data, pos, end)
    if pos < 0:
        return int64(WRONG), int64(0)
    if raw == _NULL:
        return pos, int64(-1)
    if raw & 1 or raw >> 1 > end - pos:
        return int64(WRONG), int64(0)
    return pos, raw >> 1


@compiled
def _measure_headers(data: Any, pos: int, end: int, count: int) -> tuple[int, int, int]:
    """(position after them, bytes of names, bytes of values) of `count` headers; WRONG as the first: they leave the record."""
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
def _mark(bits: Any, row: int) -> None:
    bits[row >> 3] |= 1 << (row & 7)


@compiled
def decode(
    data: Any, plan: Any, limits: Any, state: Any, taken: Any, offsets: Any, times: Any,
    key_ends: Any, key_bits: Any, keys: Any, value_ends: Any, value_bits: Any, values: Any,
    list_ends: Any, name_ends: Any, names: Any, header_ends: Any, header_bits: Any, headers: Any,
) -> int:  # fmt: skip
    """Append the records of the batches in `plan`, from where `state` stands.

    `taken`: how many rows have come from each. Returns: DONE; FULL: rows or bytes are as many as there may be; GROW: `state` says how
    much room the next record needs; WRONG: it is none, or bytes are left over after the last; those before it have been taken.
    """
    batch, pos, number, delta = state[BATCH], state[POS], state[NUMBER], state[DELTA]
    size, rows, key_at, value_at = state[SIZE], state[ROWS], state[KEY_BYTES], state[VALUE_BYTES]
    header_at, name_at, header_value_at = state[HEADERS], state[NAME_BYTES], state[HEADER_BYTES]
    rows_room = min(len(offsets), len(times), len(key_ends) - 1, len(value_ends) - 1, len(list_ends) - 1)
    rows_room = min(rows_room, 8 * len(key_bits), 8 * len(value_bits))
    headers_room = min(len(name_ends) - 1, len(header_ends) - 1, 8 * len(header_bits))
    answer = int64(DONE)
    while batch < len(plan):
        if number == 0:
            pos, delta = plan[batch, START], int64(-1)
        start, end = plan[batch, START], plan[batch, END]
        if start < 0 or end > len(data):
            answer = int64(WRONG)
        count, delta_max = plan[batch, COUNT], plan[batch, DELTA_MAX]
        base_offset, base_time = plan[batch, BASE_OFFSET], plan[batch, BASE_TIME]
        is_append_time = plan[batch, IS_APPEND_TIME] != 0
        while number < count and answer == DONE:
            answer = int64(WRONG)  # until all of it has been seen
            raw, at = read_varint(data, pos, end)
            record_end = at + (raw >> 1)
            if at < 0 or raw & 1 or record_end > end:
                break
            time_at = at + 1  # past the attributes, which mean nothing
            time_delta, at = read_varlong(data, time_at, record_end)
            if at < 0:
                break
            time = base_time + time_delta
            is_beyond = ((base_time ^ time) & (time_delta ^ time)) < 0
            if is_beyond and (at - time_at > 2 or not is_append_time):
                break
            if is_append_time:
                time = plan[batch, APPEND_TIME]
            raw, at = read_varint(data, at, record_end)
            if at < 0 or raw & 1 or raw >> 1 <= delta or raw >> 1 > delta_max:
                break
            next_delta = raw >> 1
            key, key_size = _field(data, at, record_end)
            if key < 0:
                break
            value, value_size = _field(data, key + max(key_size, 0), record_end)
            if value < 0:
                break
            raw, first = read_varint(data, value + max(value_size, 0), record_end)
            if first < 0 or raw & 1:
                break
            header_count = raw >> 1
            name_bytes = header_bytes = int64(0)
            at = first
            if header_count:
                at, name_bytes, header_bytes = _measure_headers(data, first, record_end, header_count)
            if at != record_end:
                break
            answer = int64(DONE)

            offset = base_offset + next_delta
            is_in = limits[FROM_OFFSET] <= offset < limits[TO_OFFSET] and time >= limits[SINCE]
            if is_in and (limits[HAS_UNTIL] == 0 or 0 <= time < limits[UNTIL]):
                key_next, value_next = key_at + max(key_size, 0), value_at + max(value_size, 0)
                names_next, header_values_next = name_at + name_bytes, header_value_at + header_bytes
                most = max(max(key_next, value_next), max(names_next, header_values_next))
                if rows and most > limits[DATA_MAX]:
                    answer = int64(FULL)
                    break
                if (
                    rows >= rows_room or key_next > len(keys) or value_next > len(values) or header_at + header_count > headers_room
                    or names_next > len(names) or header_values_next > len(headers)
                ):  # fmt: skip
                    state[NEED], state[NEED + 1], state[NEED + 2] = rows + 1, key_next, value_next
                    state[NEED + 3], state[NEED + 4], state[NEED + 5] = header_at + header_count, names_next, header_values_next
                    answer = int64(GROW)
                    break
                offsets[rows] = offset
                times[rows] = time
                if key_size < 0:
                    state[KEY_NULLS] += 1
                    size += NULL_BYTES
                else:
                    _mark(key_bits, rows)
                    copy_bytes(data, key, key_size, keys, key_at)
                    size += key_size
                if value_size < 0:
                    state[VALUE_NULLS] += 1
                    size += NULL_BYTES
                else:
                    _mark(value_bits, rows)
                    copy_bytes(data, value, value_size, values, value_at)
                    size += value_size
                at = first
                for _ in range(header_count):
                    at, name_size = _field(data, at, record_end)
                    copy_bytes(data, at, name_size, names, name_at)
                    name_at += name_size
                    name_ends[header_at + 1] = name_at
                    at, value_size = _field(data, at + name_size, record_end)
                    if value_size < 0:
                        state[HEADER_NULLS] += 1
                    else:
                        _mark(header_bits, header_at)
                        copy_bytes(data, at, value_size, headers, header_value_at)
                        header_value_at += value_size
                        at += value_size
                    header_at += 1
                    header_ends[header_at] = header_value_at
                rows += 1
                key_at, value_at = key_next, value_next
                key_ends[rows] = key_at
                value_ends[rows] = value_at
                list_ends[rows] = header_at
                size += ROW_BYTES + name_bytes + header_bytes + HEADER_OVERHEAD * header_count
                taken[batch] += 1
                if rows >= limits[ROWS_MAX] or size >= limits[BYTES_MAX]:
                    answer = int64(FULL)
            pos, delta = record_end, next_delta
            number += 1
        if answer == DONE and pos != end:
            answer = int64(WRONG)
        if answer != DONE:
            break
        batch += 1
        number = int64(0)
    state[BATCH], state[POS], state[NUMBER], state[DELTA] = batch, pos, number, delta
    state[SIZE], state[ROWS], state[KEY_BYTES], state[VALUE_BYTES] = size, rows, key_at, value_at
    state[HEADERS], state[NAME_BYTES], state[HEADER_BYTES] = header_at, name_at, header_value_at
    return int(answer)
