"""From keys to the latest offset of each: what compaction knows of a log's dirty part, in memory of
a fixed size.

    slot: hash of the key int64, 0 = free | hash of the key with a byte behind it int64 | offset + 1 int64

Open addressing with double hashing over a prime number of slots. Keys are not kept: two keys of the
same 128 bits would be one key to us. The hashes are Python's own of bytes, keyed anew in each
process, so nobody can make keys that meet in one slot, or that are taken for each other. Source:
Kafka SkimpyOffsetMap (which has MD5 in their place).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice

SLOT_BYTES = 24
LOAD_FACTOR_DEFAULT = 0.9
WINDOW_OFFSETS = 1 << 24
_FIELDS = 3
_SALT = b"\x01"
_SPARSE = 8  # offsets to a record from which on a byte for each offset does not pay
_PIECE = _FIELDS * 65_536


class OffsetMap:
    """The latest offset of each key among the records from `start_offset` to `end_offset`
    (exclusive), in one array of slots.

    Offsets have to be put in rising order. `count`: keys in it; `capacity`: keys it takes;
    `records`: how many records were put. `slots`: the array, see the module. Memory: `memory_bytes`
    for the slots, and up to 16 MiB while `latest_in` is in use.
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
        """An empty map of at most `memory_bytes`; of less where no more than `records_max` records
        will come.

        Args: load_factor: the share of the slots that are taken at most, above 0, up to 1.
        start_offset: first offset that will come.
        """
        slots = max(memory_bytes // SLOT_BYTES, 3)
        if records_max is not None:
            slots = min(slots, int(records_max / load_factor) + 16)
        slots = _prime_below(slots)
        self.slots = array("q", [0]) * (slots * _FIELDS)
        self.capacity = max(min(int(slots * load_factor), slots - 1), 1)
        self.count = 0
        self.records = 0
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._window = bytearray()
        self._window_start = 0

    @property
    def is_full(self) -> bool:
        """Whether it takes no further key."""
        return self.count >= self.capacity

    def put(self, key: bytes, offset: int) -> bool:
        """Remember that `offset` is the latest of `key`; False: the map is full, and the key is
        none of it.
        """
        return self.put_all((key,), (offset,), 0) == 1

    def put_all(self, keys: Sequence[bytes | None], deltas: Sequence[int], base_offset: int) -> int:
        """Put each key with the offset `base_offset` + its delta; records without a key (None) are
        passed over.

        Returns: how many of them were taken: all, or those before the one that found the map full.
        """
        slots, count, capacity, fields = self.slots, self.count, self.capacity, len(self.slots)
        number, base = fields // _FIELDS, base_offset + 1
        taken = 0
        for key, delta in zip(keys, deltas, strict=True):
            if key is not None:
                first = hash(key) or 1
                second = hash(key + _SALT)
                at = first % number * _FIELDS
                found = slots[at]
                if found and (found != first or slots[at + 1] != second):
                    step = (second % (number - 1) + 1) * _FIELDS
                    while found and (found != first or slots[at + 1] != second):
                        at = (at + step) % fields
                        found = slots[at]
                if not found:
                    if count >= capacity:
                        break
                    slots[at] = first
                    slots[at + 1] = second
                    count += 1
                slots[at + 2] = base + delta
            taken += 1
        self.count = count
        self.records += taken
        return taken

    def get(self, key: bytes) -> int:
        """The latest offset of `key`; -1: it is not in the map."""
        return self.get_all((key,))[0]

    def get_all(self, keys: Sequence[bytes | None]) -> list[int]:
        """The latest offset of each key, -1 where it is not in the map, and for None."""
        slots, fields = self.slots, len(self.slots)
        number = fields // _FIELDS
        latest = []
        for key in keys:
            if key is None:
                latest.append(-1)
                continue
            first = hash(key) or 1
            at = first % number * _FIELDS
            found = slots[at]
            if found:
                second = hash(key + _SALT)
                if found != first or slots[at + 1] != second:
                    step = (second % (number - 1) + 1) * _FIELDS
                    while found and (found != first or slots[at + 1] != second):
                        at = (at + step) % fields
                        found = slots[at]
            latest.append(slots[at + 2] - 1)  # a free slot's is 0
        return latest

    def latest_in(self, start: int, end: int) -> bytearray | None:
        """One byte for each offset from `start` to `end` (exclusive): 1 where it is the latest of
        its key, else 0.

        None: some lie outside of the map's offsets, or there are so few records in so many offsets
        that asking key by key costs less. Cheap where calls go up through the offsets.
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
    """The greatest prime that is not above `number`, which is 3 at least."""
    candidate = number if number % 2 else number - 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return candidate
