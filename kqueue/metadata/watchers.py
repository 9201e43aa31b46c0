"""The callbacks of `ClusterStore.watch`, for all stores."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Watchers:
    """The callbacks that watch one store. Thread: any."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Add a callback; return the function that removes it."""
        key = object()
        with self._lock:
            self._callbacks[key] = notify

        def stop() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return stop

    def clear(self) -> None:
        """Remove all callbacks."""
        with self._lock:
            self._callbacks.clear()

    def notify(self) -> None:
        """Call all callbacks. Not under a store's lock: a callback may wait for another thread."""
        with self._lock:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()
