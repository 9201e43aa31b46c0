"""Reads the plain file from an encrypted file.

Damaged bytes are logged once and read as 0xFF.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Sequence

from kqueue.base.errors import StorageFailed
from kqueue_storage_encrypted.format import BLOCK_BYTES, OVERHEAD, FileKey
from kqueue_storage_encrypted.layout import Read, Run, Table, first_start, read_table

# Invalid in every format of kqueue: negative as length, offset or version, and not UTF-8.
FILL = b"\xff"
TABLES_MAX = 4
logger = logging.getLogger("kqueue.storage.encrypted")


class Known:
    """Cache of the frames of one file, shared by all its readers.

    Attributes:
        tail: the unit that grows; only its owner sets it.
        is_cut: frames were removed, so other frames may be in their places.
        told: places of damage that was logged already.
    Thread: any.
    """

    def __init__(self) -> None:
        self.tail: Table | None = None
        self.is_cut = False
        self.told: set[int] = set()
        self._tables: dict[int, Table] = {}
        self._starts: dict[int, int] = {}
        self._lock = threading.Lock()

    def table(self, begin: int) -> Table | None:
        tail = self.tail
        return tail if tail is not None and tail.begin == begin else self._tables.get(begin)

    def keep(self, table: Table) -> None:
        """Cache a table that no longer grows."""
        with self._lock:
            while len(self._tables) >= TABLES_MAX:
                del self._tables[next(iter(self._tables))]
            self._tables[table.begin] = table

    def start(self, begin: int, read: Read, end: int, key: FileKey) -> int | None:
        """Return the first position in the unit at place `begin`; None: no valid frame."""
        start = self._starts.get(begin)
        if start is None:
            start = first_start(read, begin, end, key)
            if start is not None:
                self._starts[begin] = start
        return start

    def forget(self) -> None:
        """Release the cached tables."""
        with self._lock:
            self.tail = None
            self._tables.clear()


class Reader:
    """Reads the plain file as of the creation of the reader.

    `owns_tail`: the reader belongs to the writing thread, which alone caches the growing unit.
    """

    __slots__ = ("_key", "_known", "_last", "_name", "_owns_tail", "_read", "_runs")

    def __init__(
        self, read: Read, key: FileKey, runs: Sequence[Run], known: Known, name: str, *, owns_tail: bool
    ) -> None:
        self._read = read
        self._key = key
        self._runs = runs
        self._known = known
        self._name = name
        self._owns_tail = owns_tail
        self._last: Table | None = None  # the growing unit, if another reader owns it

    def read(self, position: int, size: int, *, strict: bool = False) -> bytes:
        """Return the bytes from `position` on; fewer if the file ends or was truncated meanwhile.

        Raises: StorageFailed: the disk failed, or (`strict`) bytes are damaged.
        """
        end = min(position + size, self._runs[-1].end)
        parts: list[bytes] = []
        while position < end:
            run = self._runs[bisect_right(self._runs, position, key=lambda run: run.start) - 1]
            part = self._read_unit(run, position, min(end, run.end), strict)
            if not part:
                break
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def ends_frame(self, position: int) -> int | None:
        """Return the place behind the last run's frame that ends at `position`, or None."""
        run = self._runs[-1]
        if position == run.start:
            return run.place
        if position < run.start:
            return None
        table, _ = self._locate(run, position - 1)
        index = bisect_right(table.starts, position - 1) - 1
        if index < 0 or table.ends[index] != position:
            return None
        return table.places[index] + OVERHEAD + position - table.starts[index]

    def place_near(self, position: int) -> int:
        """Return the approximate place of `position` without reading."""
        run = self._runs[bisect_right(self._runs, position, key=lambda run: run.start) - 1]
        share = (position - run.start) / max(run.end - run.start, 1)
        return int(run.place + share * max(run.place_end - run.place - 1, 0))

    # --- from positions to frames

    def _read_unit(self, run: Run, position: int, end: int, strict: bool) -> bytes:
        """Return bytes of one unit from `position` on, at least one; b"" if truncated meanwhile."""
        table, next_start = self._locate(run, position)
        index = bisect_right(table.starts, position) - 1
        if index < 0 or table.ends[index] <= position:
            after = table.starts[index + 1] if index + 1 < len(table.starts) else next_start
            upto = min(end, after if after is not None and after > position else end)
            return self._damaged(upto - position, table.begin, "frames that can't be found", strict)
        last = index
        while (
            last + 1 < len(table.starts) and table.starts[last + 1] < end and table.starts[last + 1] == table.ends[last]
        ):
            last += 1
        place = table.places[index]
        raw = memoryview(
            self._read(place, table.places[last] + OVERHEAD + table.ends[last] - table.starts[last] - place)
        )
        parts = []
        for number in range(index, last + 1):
            start, stop = table.starts[number], table.ends[number]
            plain = self._key.unseal_at(
                raw, table.places[number] - place, table.places[number], start, stop - start, run.cut
            )
            if plain is None:
                plain = self._damaged(stop - start, table.places[number], "a frame that its tag does not fit", strict)
                if not plain:
                    return b""
            first, behind = max(position - start, 0), min(end, stop) - start
            parts.append(plain if not first and behind == len(plain) else plain[first:behind])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _damaged(self, size: int, place: int, what: str, strict: bool) -> bytes:
        if self._known.is_cut:
            return b""
        message = f"{self._name}: damaged at position {place} of the encrypted file: {size} bytes in {what}"
        if strict:
            raise StorageFailed(message)
        if place not in self._known.told:
            self._known.told.add(place)
            logger.error(message)
        return FILL * size

    def _locate(self, run: Run, position: int) -> tuple[Table, int | None]:
        """Return the unit of `run` for `position`, and the start of the next valid unit."""
        low, high = run.place // BLOCK_BYTES, max(run.place_end - 1, run.place) // BLOCK_BYTES
        next_start = None
        while low < high:
            middle = (low + high + 1) // 2
            block, start = self._first_valid(run, range(middle, low, -1))
            if start is None:
                block, start = self._first_valid(run, range(middle + 1, high + 1))
            if start is None:
                high = low
            elif start <= position:
                low = block
            else:
                next_start = start
                high = block - 1 if block <= middle else low
        return self._table(run, low), next_start

    def _first_valid(self, run: Run, blocks: range) -> tuple[int, int | None]:
        for block in blocks:
            begin, end = self._unit(run, block)
            start = self._known.start(begin, self._read, end, self._key)
            if start is not None:
                return block, start
        return 0, None

    def _table(self, run: Run, block: int) -> Table:
        begin, end = self._unit(run, block)
        table = self._known.table(begin)
        if table is None and self._last is not None and self._last.begin == begin:
            table = self._last
        if table is None:
            table = read_table(self._read, begin, end, self._key)
            if run is not self._runs[-1] or end % BLOCK_BYTES == 0:
                self._known.keep(table)
            elif self._owns_tail:
                self._known.tail = table
            else:
                self._last = table
        return table

    @staticmethod
    def _unit(run: Run, block: int) -> tuple[int, int]:
        return max(block * BLOCK_BYTES, run.place), min((block + 1) * BLOCK_BYTES, run.place_end)
