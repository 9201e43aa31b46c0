"""Free space of a data folder, and who may use it.

    free bytes on the volume           producers    groups, checkpoints, metadata, deletion
    above the reserve                  yes          yes
    below it, or no emergency file     refused      yes
    none                               refused      removing the emergency file makes room for them

The reserve (`kqueue.disk.reserve.bytes`) lets the broker's own writes continue while producers
wait. The emergency file is for disks that something else has filled: removing it lets a start, a
DeleteRecords or the deletion of a topic write what they must. It is created again once there is
room for it above the reserve. Nothing depends on whether a crash leaves it whole, partial or
missing.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.base.settings import KiB, MiB
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
EMERGENCY_FILE = ".kqueue-emergency"
EMERGENCY_BYTES_MAX = 256 * KiB
RESERVE_BYTES_MAX = 64 * MiB
"""Of a reserve that is not set: a hundredth of the volume, and no more than this."""
SHARE_OF_VOLUME = 100
AUTOMATIC = -1
LOOK_BYTES_MIN = 64 * KiB
LOOK_INTERVAL_MS = 500.0
WARN_INTERVAL_MS = 60_000.0
UNBOUNDED = 1 << 62


class DiskSpace:
    """The space of one data folder. Thread: owner thread, except `make_room`.

    Args: reserve_bytes: AUTOMATIC, or bytes; 0: no reserve and no emergency file. A storage that
        does not know its free bytes has none.
    Attributes:
        refusal: why producers are refused; None: they are not.
        bytes_until_refresh: appends count it down, and call `refresh` below 0.
    """

    def __init__(self, storage: Storage, reserve_bytes: int, clock: Clock) -> None:
        self._storage = storage
        self._reserve_bytes = reserve_bytes
        self._clock = clock
        self._lock = threading.Lock()  # of the emergency file
        self.bytes_until_refresh = UNBOUNDED
        self._look_at_ms = self._warn_at_ms = -math.inf
        self.refusal: DiskFull | None = None

    def begin(self) -> None:
        """Make room for a start on a full disk, or create the emergency file. Blocks; does not
        sync.
        """
        sizes = self._sizes()
        if sizes is None:
            return
        free, reserve, emergency = sizes
        if free < emergency:
            self.make_room()
        self._update(max(free, 0), reserve, emergency)

    def check(self) -> None:
        """Refuse a producer while `refusal` holds; reads the free bytes now and then. Raises:
        DiskFull.
        """
        if self._clock.monotonic_ms() >= self._look_at_ms:
            self.refresh()
        if self.refusal is not None:
            raise self.refusal

    def on_disk_full(self, error: DiskFull) -> None:
        """Note that an append found no room; logs at most one line a minute."""
        now_ms = self._clock.monotonic_ms()
        self.bytes_until_refresh = -1
        if now_ms >= self._warn_at_ms:
            self._warn_at_ms = now_ms + WARN_INTERVAL_MS
            events.DISK_FULL.log(
                logger,
                "%s is full, appends are refused until there is room: %s",
                location=self._storage.location,
                error=error,
            )

    def refresh(self) -> None:
        """Read the free bytes now. Never raises."""
        sizes = self._sizes()
        if sizes is not None:
            self._update(*sizes)

    def check_room_for(self, size: int) -> None:
        """Check that a copy of `size` bytes leaves the reserve free. Raises: DiskFull."""
        sizes = self._sizes()
        if sizes is not None and sizes[0] < size + sizes[1]:
            raise DiskFull(
                f"expected {size + sizes[1]} free bytes in {self._storage.location}, {sizes[1]} of them as a reserve "
                f"(kqueue.disk.reserve.bytes), found {sizes[0]}"
            )

    def reserve_bytes(self) -> int | None:
        """Return the bytes that producers leave free; None: there is no reserve. Blocks. Thread:
        any.
        """
        sizes = self._sizes()
        return None if sizes is None else sizes[1]

    def make_room(self) -> bool:
        """Remove the emergency file. False: there is none. Thread: any."""
        with self._lock:
            try:
                self._storage.remove(EMERGENCY_FILE)
            except (StorageFailed, FileNotFoundError):
                return False
        self.bytes_until_refresh = -1  # producers are refused until it is back
        events.DISK_EMERGENCY_FILE_REMOVED.log(
            logger,
            "%s is full: the emergency file was removed to make room for the broker's own files",
            location=self._storage.location,
        )
        return True

    def _update(self, free: int, reserve: int, emergency: int) -> None:
        self._look_at_ms = self._clock.monotonic_ms() + LOOK_INTERVAL_MS
        wanted = reserve
        if not self._has_file(emergency) and (free < reserve + emergency or not self._make_file(emergency)):
            wanted = max(reserve + emergency, free + 1)
        self.bytes_until_refresh = max((free - wanted) // 2, LOOK_BYTES_MIN)
        if free < wanted:
            self._refuse(free, wanted)
        elif self.refusal is not None:
            self.refusal = None
            events.DISK_HAS_ROOM.log(logger, "%s has room again: producers are served", location=self._storage.location)

    def _refuse(self, free: int, wanted: int) -> None:
        if self.refusal is None:
            self.refusal = DiskFull(
                f"the disk is full: expected {wanted} free bytes at least in {self._storage.location}, found {free} "
                "(kqueue.disk.reserve.bytes); delete records or topics, or make room, and producers are served again"
            )
            events.PRODUCERS_REFUSED.log(logger, "producers are refused: %s", reason=self.refusal)

    def _sizes(self) -> tuple[int, int, int] | None:
        """Return bytes free, reserved, and of the emergency file; None: unknown, or no reserve."""
        if self._reserve_bytes == 0:
            return None
        free, total = self._storage.free_bytes(), self._storage.total_bytes()
        if free is None or total is None:
            return None
        share = total // SHARE_OF_VOLUME
        reserve = min(share, RESERVE_BYTES_MAX) if self._reserve_bytes == AUTOMATIC else self._reserve_bytes
        return free, reserve, min(share, EMERGENCY_BYTES_MAX)

    def _has_file(self, size: int) -> bool:
        try:
            return self._storage.open(EMERGENCY_FILE).size >= size
        except (StorageFailed, FileNotFoundError):
            return False

    def _make_file(self, size: int) -> bool:
        with self._lock:
            try:
                file = self._storage.open(EMERGENCY_FILE, create=True)
                file.truncate(0)
                file.append(bytes(size))
                file.close()
            except StorageFailed:
                with contextlib.suppress(StorageFailed, FileNotFoundError):
                    self._storage.remove(EMERGENCY_FILE)
                return False
        return True
