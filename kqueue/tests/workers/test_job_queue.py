from __future__ import annotations

import queue
import threading

import pytest

from kqueue.workers.job_queue import SemaphoreQueue, new_queue


def test_queue_is_the_interpreters_own_by_default() -> None:
    assert isinstance(new_queue(), queue.SimpleQueue)


def test_queue_uses_threading_where_simple_queue_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Replaced:
        """As gevent's."""

    monkeypatch.setattr(queue, "SimpleQueue", Replaced)
    assert isinstance(new_queue(), SemaphoreQueue)


def test_queue_uses_threading_where_locks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lock:
        """As gevent's."""

        acquire = release = locked = staticmethod(lambda: True)

    monkeypatch.setattr(threading, "Lock", Lock)
    assert isinstance(new_queue(), SemaphoreQueue)


def test_items_come_out_in_their_order_and_get_waits_for_the_next() -> None:
    items = SemaphoreQueue()
    items.put(1)
    items.put(2)
    assert not items.empty()
    assert (items.get(), items.get_nowait(), items.empty()) == (1, 2, True)
    with pytest.raises(queue.Empty):
        items.get_nowait()
    with pytest.raises(queue.Empty):
        items.get(timeout=0.001)
    later = threading.Timer(0.001, items.put, [3])
    later.start()
    assert items.get(timeout=30) == 3
    later.join()
