"""The plain content of files that were mapped, as long as there is room for it."""

from __future__ import annotations

import threading
from collections import OrderedDict

MAPS_BYTES_MAX = 64 * 1024 * 1024


class Maps:
    """Keeps what was mapped last, up to `bytes_max` together, one in any case. Any thread."""

    def __init__(self, bytes_max: int = MAPS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._views: OrderedDict[object, memoryview] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, file: object) -> memoryview | None:
        with self._lock:
            view = self._views.get(file)
            if view is not None:
                self._views.move_to_end(file)
            return view

    def keep(self, file: object, view: memoryview) -> None:
        self.drop(file)
        with self._lock:
            self._views[file] = view
            self._bytes += len(view)
            while self._bytes > self._bytes_max and len(self._views) > 1:
                self._bytes -= len(self._views.popitem(last=False)[1])

    def drop(self, file: object) -> None:
        with self._lock:
            view = self._views.pop(file, None)
            if view is not None:
                self._bytes -= len(view)
