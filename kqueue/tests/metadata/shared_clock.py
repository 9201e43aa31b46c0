"""A clock in a file, which a test sets and several processes read."""

from __future__ import annotations

import os
import struct
from pathlib import Path

START_MS = 1_000_000.0
_MS = struct.Struct("d")


class SharedClock:
    """Stands still but for `advance`. Implements `Clock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(_MS.pack(START_MS))
        self._fd = os.open(path, os.O_RDWR)

    def monotonic_ms(self) -> float:
        (now_ms,) = _MS.unpack(os.pread(self._fd, _MS.size, 0))
        return float(now_ms)

    def wall_ms(self) -> int:
        return int(self.monotonic_ms())

    def advance(self, ms: float) -> None:
        """Pass time in all processes."""
        os.pwrite(self._fd, _MS.pack(self.monotonic_ms() + ms), 0)
