"""The hot loops of compaction, compiled: Python functions that numba turns into machine code, over
NumPy views of buffers.

They give the same results as `python_engine` and `offset_map`, and check each record at least as
strictly. Each length is compared with the remaining bytes before it is used; a kernel returns WRONG
if a record is malformed. Compiled code is cached beside this file (or in NUMBA_CACHE_DIR). The
kernels release the interpreter lock. Their many parameters are arrays and numbers because compiled
code knows no objects. Needs `kqueue[fast]`.

    slot: hash of the key uint64 | its other half uint64 | offset + 1 int64, 0 = free
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint64

from kqueue.log.compaction.siphash import hash_bytes
from kqueue.records.batch import LOG_APPEND_TIME
from kqueue.records.batch_kernels import (
    ATTRIBUTES,
    BASE_TIME,
    COUNT,
    CRC,
    HEADER_BYTES,
    LENGTH,
    LENGTH_END,
    MAX_TIME,
    PRODUCER,
    checksum,
    number_at,
    put_number,
    small_batch,
)
from kqueue.records.jit import compiled
from kqueue.records.record_kernels import NULL, WRONG, copy_bytes, read_record

FIELDS = 3  # of a slot
STAGED = 1024  # records hashed before the map is read: several slots load at once
_FAR = 2**62  # larger offsets and times are left to plain Python, whose numbers have no limit


# --- the map


@compiled
def find_slot(slots: Any, low: int, high: int) -> int:
    """Return the index of this hash's slot, or of a free one. At least one must be free."""
    fields = len(slots)
    at = int64(((low >> uint64(32)) * uint64(fields // FIELDS)) >> uint64(32)) * FIELDS
    while slots[at + 2] != uint64(0):
        if slots[at] == low and slots[at + 1] == high:
            break
        at += FIELDS
        if at == fields:
            at = int64(0)
    return at


@compiled
def put_key(slots: Any, key: Any, offset: int, count: int, capacity: int, seed: Any) -> int:
    """Put a key; return the count of keys in the map, WRONG if it is full."""
    low, high = hash_bytes(key, 0, len(key), seed)
    at = find_slot(slots, low, high)
    if slots[at + 2] == uint64(0):
        if count >= capacity:
            return WRONG
        slots[at] = low
        slots[at + 1] = high
        count += 1
    slots[at + 2] = uint64(offset + 1)
    return count


@compiled
def get_key(slots: Any, key: Any, seed: Any) -> int:
    """Return the latest offset of the key, -1: it is not in the map."""
    low, high = hash_bytes(key, 0, len(key), seed)
    return int64(slots[find_slot(slots, low, high) + 2]) - 1


@compiled
def _put_staged(slots: Any, stage: Any, staged: int, count: int, capacity: int) -> tuple[int, int]:
    """Put the staged keys; return the count of keys in the map, and of staged keys that fitted."""
    for number in range(staged):
        at = find_slot(slots, stage[number, 0], stage[number, 1])
        if slots[at + 2] == uint64(0):
            if count >= capacity:
                return count, int64(number)
            slots[at] = stage[number, 0]
            slots[at + 1] = stage[number, 1]
            count += 1
        slots[at + 2] = stage[number, 2]
    return count, int64(staged)


@compiled
def index_batch(
    slots: Any, stage: Any, seed: Any, count: int, capacity: int,
    data: Any, records: int, base_offset: int, delta_max: int, first_offset: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Put the records of a batch from `first_offset` on.

    Returns: keys in the map, processed records (also those without a key), and the offset of the
        first record that did not fit, -1: none. WRONG as the first: the data is malformed; the map
        may hold a part of it.
    """
    size = len(data)
    pos = processed = staged = int64(0)
    delta = full_at = int64(-1)
    for number in range(records):
        pos, _, delta, key, key_size = read_record(data, pos, size, delta, delta_max)
        if pos < 0:
            return int64(WRONG), int64(0), int64(0)
        offset = base_offset + delta
        if offset >= first_offset and full_at < 0:
            processed += 1
            if key_size >= 0:
                stage[staged, 0], stage[staged, 1] = hash_bytes(data, key, key_size, seed)
                stage[staged, 2] = uint64(offset + 1)
                stage[staged, 3] = uint64(processed)
                staged += 1
        if staged and (staged == STAGED or number == records - 1):
            count, done = _put_staged(slots, stage, staged, count, capacity)
            if done < staged:  # go on reading all the same: what follows must be records
                full_at = int64(stage[done, 2]) - 1
                processed = int64(stage[done, 3]) - 1
            staged = int64(0)
    if pos != size:
        return int64(WRONG), int64(0), int64(0)
    return count, processed, full_at


@compiled
def mark_latest(slots: Any, start: int, marks: Any) -> None:
    """Set `marks[offset - start]` for each offset in the map, within the size of `marks`."""
    size = len(marks)
    for at in range(2, len(slots), FIELDS):
        index = int64(slots[at]) - 1 - start
        if 0 <= index < size:
            marks[index] = 1


# --- what stays


@compiled
def mark_retained(
    slots: Any, stage: Any, seed: Any,
    data: Any, records: int, base_offset: int, delta_max: int, start_offset: int, end_offset: int, stay: Any,
) -> int:  # fmt: skip
    """Set the byte in `stay`, one per record, of records that the map has no later offset for.

    Records below `start_offset` and those without a key go; all from `end_offset` on stay.
    Returns: the count of records that stay; WRONG: the data is malformed.
    """
    size = len(data)
    pos = staged = kept = int64(0)
    delta = int64(-1)
    for number in range(records):
        pos, _, delta, key, key_size = read_record(data, pos, size, delta, delta_max)
        if pos < 0:
            return int64(WRONG)
        offset = base_offset + delta
        if offset >= max(start_offset, end_offset):
            stay[number] = 1
            kept += 1
        elif offset >= start_offset and key_size >= 0:
            stage[staged, 0], stage[staged, 1] = hash_bytes(data, key, key_size, seed)
            stage[staged, 2] = uint64(offset + 1)
            stage[staged, 3] = uint64(number)
            staged += 1
        if staged == STAGED or number == records - 1:
            for index in range(staged):
                if stage[index, 2] >= slots[find_slot(slots, stage[index, 0], stage[index, 1]) + 2]:
                    stay[int64(stage[index, 3])] = 1
                    kept += 1
            staged = int64(0)
    return kept if pos == size else int64(WRONG)


@compiled
def keep_records(
    data: Any, records: int, delta_max: int, stay: Any, by_delta: bool, keep_tombstones: bool, out: Any
) -> tuple[int, int, int, bool]:
    """Copy the records whose byte in `stay` is set to `out`, which is as long as `data`.

    Args:
        stay: a byte per record, or (`by_delta`) per offset delta up to `delta_max`.
        keep_tombstones: False: records without a value go in any case.
    Returns: count and bytes of the copied records, their greatest timestamp delta, whether
        tombstones are among them. WRONG as the first: the data is malformed.
    """
    wrong = int64(WRONG), int64(0), int64(0), False
    size = len(data)
    pos = kept = filled = latest = int64(0)
    delta = int64(-1)
    tombstones = False
    for number in range(records):
        start = pos
        pos, time, delta, key, key_size = read_record(data, pos, size, delta, delta_max)
        if pos < 0:
            return wrong
        if not stay[delta if by_delta else number]:
            continue
        value = key + max(key_size, 0)
        if value >= pos:
            return wrong
        is_tombstone = data[value] == NULL
        if is_tombstone and not keep_tombstones:
            continue
        tombstones |= is_tombstone
        if kept == 0 or time > latest:
            latest = time
        copy_bytes(data, start, pos - start, out, filled)
        filled += pos - start
        kept += 1
    return (kept, filled, latest, tombstones) if pos == size else wrong


# --- many small batches at once


@compiled
def plain_batch(data: Any, pos: int, next_offset: int) -> tuple[int, int, int, int]:
    """Return (end, base offset, last offset delta, record count) of a plain batch at `pos`; 0 as
    end: it is not plain.

    Plain: whole, magic 2, small, with a right checksum and rising offsets; not compressed,
    transactional or a control batch, and without a delete horizon.
    """
    end, base_offset, delta_max, count = small_batch(data, pos, LOG_APPEND_TIME, True)
    if end == 0 or base_offset < next_offset or base_offset > _FAR or count < 1:
        return int64(0), int64(0), int64(0), int64(0)
    return end, base_offset, delta_max, count


@compiled
def index_chunk(
    slots: Any,
    stage: Any,
    seed: Any,
    count: int,
    capacity: int,
    data: Any,
    pos: int,
    limit: int,
    next_offset: int,
    first_offset: int,
) -> tuple[int, int, int, int]:
    """Put the records of the plain batches from `pos` on, up to the first that is not plain, ends
    beyond `limit`, or might fill the map.

    Returns: the position of that one, the next offset, keys in the map, records that were put.
    """
    put = staged = int64(0)
    while True:
        end, base_offset, delta_max, records = plain_batch(data, pos, next_offset)
        if end == 0 or end > limit or count + staged + records > capacity:
            break
        if staged + records > STAGED:
            count, _ = _put_staged(slots, stage, staged, count, capacity)
            staged = int64(0)
        if records > STAGED:
            break
        at, delta, before = pos + HEADER_BYTES, int64(-1), staged
        for _ in range(records):
            at, _, delta, key, key_size = read_record(data, at, end, delta, delta_max)
            if at < 0:
                break
            if key_size >= 0 and base_offset + delta >= first_offset:
                stage[staged, 0], stage[staged, 1] = hash_bytes(data, key, key_size, seed)
                stage[staged, 2] = uint64(base_offset + delta + 1)
                staged += 1
        if at != end:
            staged = before
            break
        put += staged - before
        pos = end
        next_offset = base_offset + delta_max + 1
    count, _ = _put_staged(slots, stage, staged, count, capacity)
    return pos, next_offset, count, put


@compiled
def _stays(slots: Any, seed: Any, data: Any, key: int, key_size: int, offset: int) -> bool:
    if key_size < 0:
        return False
    low, high = hash_bytes(data, key, key_size, seed)
    return uint64(offset + 1) >= slots[find_slot(slots, low, high) + 2]


@compiled
def _keep_plain(
    slots: Any, seed: Any, marks: Any, marks_start: int,
    data: Any, pos: int, end: int, base_offset: int, delta_max: int, records: int, out: Any, filled: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Copy the records of a plain batch that stay to `out[filled:]`.

    Returns: their count, their end in `out`, their greatest timestamp delta. WRONG as the first:
        malformed, or a tombstone stays, or a time is out of range.
    """
    wrong = int64(WRONG), int64(0), int64(0)
    is_marked = base_offset >= marks_start and base_offset + delta_max - marks_start < len(marks)
    at, delta, kept, latest = pos + HEADER_BYTES, int64(-1), int64(0), int64(-_FAR)
    for _ in range(records):
        start = at
        at, time, delta, key, key_size = read_record(data, at, end, delta, delta_max)
        if at < 0:
            return wrong
        offset = base_offset + delta
        if marks[offset - marks_start] if is_marked else _stays(slots, seed, data, key, key_size, offset):
            value = key + max(key_size, 0)
            if value >= at or data[value] == NULL or time > _FAR or time < -_FAR:
                return wrong
            copy_bytes(data, start, at - start, out, filled)
            filled += at - start
            kept += 1
            latest = max(latest, time)
    return (kept, filled, latest) if at == end else wrong


@compiled
def _is_in(rising: Any, number: int) -> bool:
    low, high = 0, len(rising)
    while low < high:
        middle = (low + high) // 2
        if rising[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < len(rising) and rising[low] == number


@compiled
def keep_chunk(
    slots: Any, seed: Any, marks: Any, marks_start: int,
    data: Any, pos: int, limit: int, next_offset: int, start_offset: int, end_offset: int,
    last_offsets: Any, out: Any, rows: Any,
) -> tuple[int, int, int, int, int, bool]:  # fmt: skip
    """Write what stays of the plain batches from `pos` on to `out`, which is as long as `data`.

    Stops before the first batch that is not plain, ends beyond `limit`, is not between
    `start_offset` and `end_offset`, has a tombstone that stays, or would go and ends at one of
    `last_offsets` (rising).

    Args:
        marks: a byte per offset from `marks_start` on, 1: stays; others are looked up by key.
        rows: for each written batch its end in `out`, last offset and greatest timestamp.
    Returns: the position where it stopped, the next offset, rows, records read, records kept,
        whether all of them stay unchanged.
    """
    written = read = kept = filled = int64(0)
    is_same = True
    while written < len(rows):
        end, base_offset, delta_max, records = plain_batch(data, pos, next_offset)
        if end == 0 or end > limit or base_offset < start_offset or base_offset + delta_max >= end_offset:
            break
        base_time, max_time = number_at(data, pos + BASE_TIME, 8), number_at(data, pos + MAX_TIME, 8)
        body = filled + HEADER_BYTES
        staying, body_end, latest = _keep_plain(
            slots, seed, marks, marks_start, data, pos, end, base_offset, delta_max, records, out, body
        )
        if staying < 0 or base_time > _FAR or base_time < -_FAR:
            break
        if staying == 0 and number_at(data, pos + PRODUCER, 8) >= 0 and _is_in(last_offsets, base_offset + delta_max):
            break
        if staying:
            copy_bytes(data, pos, HEADER_BYTES, out, filled)
            if staying < records:
                if not data[pos + ATTRIBUTES + 1] & LOG_APPEND_TIME:
                    max_time = base_time + latest
                put_number(out, filled + LENGTH, 4, body_end - filled - LENGTH_END)
                put_number(out, filled + MAX_TIME, 8, max_time)
                put_number(out, filled + COUNT, 4, staying)
                put_number(out, filled + CRC, 4, int64(checksum(out, filled + ATTRIBUTES, body_end)))
            filled = body_end
            rows[written, 0], rows[written, 1], rows[written, 2] = filled, base_offset + delta_max, max_time
            written += 1
        is_same = is_same and staying == records
        read += records
        kept += staying
        pos = end
        next_offset = base_offset + delta_max + 1
    return pos, next_offset, written, read, kept, is_same
