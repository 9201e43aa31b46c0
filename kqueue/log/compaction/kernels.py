"""The hot loops of compaction, compiled: Python functions that numba turns into machine code, over NumPy views of buffers.

They say the same as `scanning` and `offset_map`, and look at each record at least as closely. Nothing read from a file is trusted: each
length is compared with what is left before it is followed, and a kernel answers WRONG where a record does not add up. Compiled code
is kept beside this file (or where NUMBA_CACHE_DIR says), so that it is made once; the kernels let go of the interpreter's lock.
Needs `kqueue[fast]`.

    slot: hash of the key uint64 | its other half uint64 | offset + 1 int64, 0 = free

The hash is SipHash-2-4 of 128 bits under a key that each map draws for itself, so that nobody can make keys that meet in one slot, or that
are taken for each other. Source: Aumasson and Bernstein, SipHash: a fast short-input PRF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import int64, njit, uint64


def compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use, and keep the code for the next process where there is a folder to keep it in."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


FIELDS = 3  # of a slot
WRONG = -1
STAGED = 1024  # records whose hashes are known before the map is asked: the processor then waits for several slots at once
_NULL = 1  # a varint of -1


# --- reading


@compiled
def read_varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """The number of 32 bits at `pos`, still zigzagged, and the position after it; WRONG as position: it leaves the data, or 32 bits."""
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
    """The signed number of 64 bits at `pos` and the position after it; WRONG as position: it leaves the data, or 64 bits."""
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
def read_record(data: Any, pos: int, size: int, delta_before: int, delta_max: int) -> tuple[int, int, int, int, int]:
    """A record as far as its key: (end, timestamp delta, offset delta, position of the key, its size or -1); WRONG as end: it is none."""
    wrong = int64(WRONG), int64(0), int64(0), int64(0), int64(0)
    raw, pos = read_varint(data, pos, size)
    end = pos + (raw >> 1)
    if pos < 0 or raw & 1 or end > size:
        return wrong
    time, pos = read_varlong(data, pos + 1, end)  # past the attributes
    if pos < 0:
        return wrong
    raw, pos = read_varint(data, pos, end)
    delta = raw >> 1
    if pos < 0 or raw & 1 or delta <= delta_before or delta > delta_max:
        return wrong
    raw, pos = read_varint(data, pos, end)
    if pos < 0:
        return wrong
    if raw == _NULL:
        return end, time, delta, pos, int64(-1)
    if raw & 1 or pos + (raw >> 1) >= end:
        return wrong
    return end, time, delta, pos, raw >> 1


# --- hashing


@compiled
def _turn(word: int, bits: int) -> int:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@compiled
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a += b
    c += d
    b = _turn(b, 13) ^ a
    d = _turn(d, 16) ^ c
    a = _turn(a, 32) + d
    c += b
    d = _turn(d, 21) ^ a
    b = _turn(b, 17) ^ c
    return a, b, _turn(c, 32), d


@compiled
def _word(data: Any, pos: int, size: int) -> int:
    """The `size` bytes from `pos` on, the first one lowest."""
    found = uint64(0)
    for number in range(size):
        found |= uint64(data[pos + number]) << uint64(8 * number)
    return found


@compiled
def hash_bytes(data: Any, pos: int, size: int, seed: Any) -> tuple[int, int]:
    """The two halves of the hash of `size` bytes; `seed`: two words."""
    a = seed[0] ^ uint64(0x736F6D6570736575)
    b = seed[1] ^ uint64(0x646F72616E646F6D) ^ uint64(0xEE)
    c = seed[0] ^ uint64(0x6C7967656E657261)
    d = seed[1] ^ uint64(0x7465646279746573)
    last = pos + size - (size & 7)
    while pos <= last:
        word = _word(data, pos, 8) if pos < last else _word(data, pos, size & 7) | uint64(size) << uint64(56)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        pos += 8
    c ^= uint64(0xEE)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    low = a ^ b ^ c ^ d
    b ^= uint64(0xDD)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return low, a ^ b ^ c ^ d


# --- the map


@compiled
def find_slot(slots: Any, low: int, high: int) -> int:
    """Where the slot of this hash begins: its own, or the free one that it would take. One slot at least must be free."""
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
    """Returns how many keys there are then, WRONG if the map is full."""
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
    """The latest offset of the key, -1: it is not there."""
    low, high = hash_bytes(key, 0, len(key), seed)
    return int64(slots[find_slot(slots, low, high) + 2]) - 1


@compiled
def _put_staged(slots: Any, stage: Any, staged: int, count: int, capacity: int) -> tuple[int, int]:
    """Put what `stage` holds; returns how many keys there are then, and how many of the staged were taken."""
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

    Returns: keys in the map, records that were taken (those without a key among them), and the offset that found the map full, -1: none.
    WRONG as the first: the data is no batch's; the map may hold a part of it.
    """
    size = len(data)
    pos = taken = staged = int64(0)
    delta = full_at = int64(-1)
    for number in range(records):
        pos, _, delta, key, key_size = read_record(data, pos, size, delta, delta_max)
        if pos < 0:
            return int64(WRONG), int64(0), int64(0)
        offset = base_offset + delta
        if offset >= first_offset and full_at < 0:
            taken += 1
            if key_size >= 0:
                stage[staged, 0], stage[staged, 1] = hash_bytes(data, key, key_size, seed)
                stage[staged, 2] = uint64(offset + 1)
                stage[staged, 3] = uint64(taken)
                staged += 1
        if staged and (staged == STAGED or number == records - 1):
            count, done = _put_staged(slots, stage, staged, count, capacity)
            if done < staged:  # go on reading all the same: what follows must be records
                full_at = int64(stage[done, 2]) - 1
                taken = int64(stage[done, 3]) - 1
            staged = int64(0)
    if pos != size:
        return int64(WRONG), int64(0), int64(0)
    return count, taken, full_at


@compiled
def mark_latest(slots: Any, start: int, marks: Any) -> None:
    """Set a byte of `marks` for each offset of the map from `start` on; as many as there are bytes."""
    size = len(marks)
    for at in range(2, len(slots), FIELDS):
        place = int64(slots[at]) - 1 - start
        if 0 <= place < size:
            marks[place] = 1


# --- what stays


@compiled
def ask_batch(
    slots: Any, stage: Any, seed: Any,
    data: Any, records: int, base_offset: int, delta_max: int, start_offset: int, end_offset: int, stay: Any,
) -> int:  # fmt: skip
    """Set the byte in `stay`, which has one for each record, of those that the map does not outdate.

    Records below `start_offset` and those without a key go, all from `end_offset` on stay. Returns how many stay; WRONG: the data is no
    batch's.
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
            for place in range(staged):
                if stage[place, 2] >= slots[find_slot(slots, stage[place, 0], stage[place, 1]) + 2]:
                    stay[int64(stage[place, 3])] = 1
                    kept += 1
            staged = int64(0)
    return kept if pos == size else int64(WRONG)


@compiled
def keep_records(
    data: Any, records: int, delta_max: int, stay: Any, by_delta: bool, keep_tombstones: bool, out: Any
) -> tuple[int, int, int, bool]:
    """Copy the records whose byte in `stay` is set to `out`, which is as long as `data`.

    Args: stay: a byte for each record, or (`by_delta`) for each offset delta up to `delta_max`. keep_tombstones: False: those without a
    value go all the same.
    Returns: how many stay, their bytes, their greatest timestamp delta, whether there are tombstones among them. WRONG as the first:
    the data is no batch's.
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
        is_tombstone = data[value] == _NULL
        if is_tombstone and not keep_tombstones:
            continue
        tombstones |= is_tombstone
        if kept == 0 or time > latest:
            latest = time
        out[filled : filled + pos - start] = data[start:pos]
        filled += pos - start
        kept += 1
    return (kept, filled, latest, tombstones) if pos == size else wrong
