"""The queues that pass jobs between threads."""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import Any


class SemaphoreQueue:
    """A `queue.SimpleQueue` over the primitives of `threading`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._count = threading.Semaphore(0)

    def put(self, item: Any) -> None:
        """Append an item; never waits."""
        self._items.append(item)
        self._count.release()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the first item. Raises: queue.Empty: none came in time."""
        if not self._count.acquire(block, timeout):
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        """Whether `get` would wait; another thread may change that at any time."""
        return not self._items

    def get_nowait(self) -> Any:
        """`get` without waiting."""
        return self.get(block=False)


JobQueue = queue.SimpleQueue[Any] | SemaphoreQueue


def new_queue() -> JobQueue:
    """Return a queue between the threads of this process.

    gevent can replace the classes of `queue` by some for the greenlets of one thread and leave the
    threads as they are, or the other way round. `threading` has what fits to the threads then.
    """
    is_original = queue.SimpleQueue.__module__ == "_queue" and type(threading.Lock()).__module__ == "_thread"
    return queue.SimpleQueue() if is_original else SemaphoreQueue()
