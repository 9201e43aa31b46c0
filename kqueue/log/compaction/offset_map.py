"""Maps each key of a log's dirty part to its latest offset, in memory of a fixed size.

    slot: hash of the key int64, 0 = free | hash of the key and one more byte int64
          | offset + 1 int64

Open addressing with double hashing over a prime number of slots. Keys are not stored: two keys with
the same 128 bits count as one. The hashes are Python's own, with a random key per process, so
clients cannot construct keys that collide.
Source: Kafka SkimpyOffsetMap, which uses MD5.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice

SLOT_BYTES = 24
SLOTS_MAX = 2**32 - 1
"""The compiled engine chooses a slot by 32 bits of the hash. Both engines have the same count of
slots, so that their maps are full at the same record.
"""
LOAD_FACTOR_DEFAULT = 0.9
WINDOW_OFFSETS = 1 << 24
_FIELDS = 3
_SALT = b"\x01"
_SPARSE = 8  # offsets per record; with more, a byte for each offset costs more than asking by key
_PIECE = _FIELDS * 65_536


class OffsetMap:
    """The latest offset of each key among the records from `start_offset` to `end_offset`
    (exclusive).

    Offsets must be put in rising order.

    count: keys in the map. capacity: keys that fit. records: records that were put.
    slots: array('q'), see the module.
    Memory: `memory_bytes` for the slots, and up to 16 MiB while `latest_in` is in use.
    """

    __slots__ = ("_window", "_window_start", "capacity", "count", "end_offset", "records", "slots", "start_offset")

    def __init__(
        self,
        memory_bytes: int,
        load_factor: float = LOAD_FACTOR_DEFAULT,
        *,
        records_max: int | None = None,
        start_offset: int = 0,
    ) -> None:
        """Make an empty map of at most `memory_bytes`, less if `records_max` records need less.

        Args: load_factor: greatest share of used slots, above 0, up to 1; start_offset: of the
            first record.
        """
        slots = min(max(memory_bytes // SLOT_BYTES, 3), SLOTS_MAX)
        if records_max is not None:
            slots = min(slots, int(records_max / load_factor) + 16)
        slots = _prime_below(slots)
        self._allocate(slots)
        self.capacity = max(min(int(slots * load_factor), slots - 1), 1)
        self.count = 0
        self.records = 0
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._window = bytearray()
        self._window_start = 0

    def _allocate(self, slots: int) -> None:
        self.slots = array("q", [0]) * (slots * _FIELDS)

    def put(self, key: bytes, offset: int) -> bool:
        """Set the latest offset of `key`; return False if the map is full and lacks the key."""
        return self.put_all((key,), (offset,), 0) == 1

    def put_all(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int) -> int:
        """Put each key with the offset `base_offset` + its delta; None, a missing key, is skipped.

        Returns: the number of processed records: all, or those before the one that did not fit.
        """
        slots, count, capacity, fields = self.slots, self.count, self.capacity, len(self.slots)
        number, base = fields // _FIELDS, base_offset + 1
        processed = 0
        for key, delta in zip(keys, deltas, strict=True):
            if key is not None:
                first = hash(key) or 1
                second = hash(key + _SALT)
                at = first % number * _FIELDS
                slot = slots[at]
                if slot and (slot != first or slots[at + 1] != second):
                    step = (second % (number - 1) + 1) * _FIELDS
                    while slot and (slot != first or slots[at + 1] != second):
                        at = (at + step) % fields
                        slot = slots[at]
                if not slot:
                    if count >= capacity:
                        break
                    slots[at] = first
                    slots[at + 1] = second
                    count += 1
                slots[at + 2] = base + delta
            processed += 1
        self.count = count
        self.records += processed
        return processed

    def get(self, key: bytes) -> int:
        """Return the latest offset of `key`, -1: it is not in the map."""
        return self.get_all((key,))[0]

    def get_all(self, keys: Sequence[bytes | None]) -> list[int]:
        """Return the latest offset of each key, -1 for None and for a key not in the map."""
        slots, fields = self.slots, len(self.slots)
        number = fields // _FIELDS
        latest = []
        for key in keys:
            if key is None:
                latest.append(-1)
                continue
            first = hash(key) or 1
            at = first % number * _FIELDS
            slot = slots[at]
            if slot:
                second = hash(key + _SALT)
                if slot != first or slots[at + 1] != second:
                    step = (second % (number - 1) + 1) * _FIELDS
                    while slot and (slot != first or slots[at + 1] != second):
                        at = (at + step) % fields
                        slot = slots[at]
            latest.append(slots[at + 2] - 1)  # a free slot's is 0
        return latest

    def latest_in(self, start: int, end: int) -> bytearray | None:
        """Return one byte per offset from `start` to `end` (exclusive): 1 if it is the latest of
        its key, else 0.

        Returns: None if some offsets are outside the map, or so many offsets have no record that
            asking by key costs less. Calls with rising offsets are cheap.
        """
        if start < self.start_offset or end > self.end_offset or end - start > WINDOW_OFFSETS:
            return None
        at = start - self._window_start
        if at < 0 or at + end - start > len(self._window):
            if self.end_offset - self.start_offset > _SPARSE * self.records + WINDOW_OFFSETS:
                return None
            self._move_window(start)
            at = 0
        return self._window[at : at + end - start]

    def _move_window(self, start: int) -> None:
        window = bytearray(min(WINDOW_OFFSETS, self.end_offset - start))
        slots, size, base = self.slots, len(window), start + 1
        for piece in range(0, len(slots), _PIECE):
            for offset in islice(slots[piece : piece + _PIECE], 2, None, _FIELDS):
                if 0 <= (at := offset - base) < size:
                    window[at] = 1
        self._window, self._window_start = window, start


def _prime_below(number: int) -> int:
    """Return the greatest prime that is at most `number`, which is at least 3."""
    candidate = number if number % 2 else number - 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return candidate
