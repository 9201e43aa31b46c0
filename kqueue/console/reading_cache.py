"""`ReadingCache`: what takes long to read of a cluster, read no more often than it is worth.

With 1,000 topics of 20 partitions a broker takes a quarter of a second to send the metadata, and a
client as long to read it. What took longer to read than `SLOW_S` is shown from the last reading,
and the next one is made after the page has been sent.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kqueue.base.clock import monotonic_s

READINGS_MAX = 32
SLOW_S = 0.05
FRESH_MAX_S, AGE_MAX_S = 5.0, 60.0
READ_SHARE = 10
T = TypeVar("T")


class ReadingKey(NamedTuple):
    """What was read, and for whom: what one login may see, another may not."""

    login_id: str
    subject: str


@dataclass(slots=True)
class _Reading:
    """The last value of a key. `reads`: held while it is read."""

    reads: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    taken_s: float = 0.0
    cost_s: float = 0.0


class ReadingCache:
    """The last reading of each key.

    A reading serves for `READ_SHARE` times as long as it took, and `FRESH_MAX_S` at most. From then
    on it is shown once more while the next one is made, up to `AGE_MAX_S`.

    Thread: any.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._readings: OrderedDict[ReadingKey, _Reading] = OrderedDict()

    def get(self, key: ReadingKey, read: Callable[[], T]) -> tuple[T, bool]:
        """Return the value, and whether it is to be read again once the page has been sent.

        Args:
            read: reads it, and returns no None; what it raises is raised.
        """
        reading = self._reading(key)
        known: T | None = reading.value
        if known is not None:
            age_s = self._now_s() - reading.taken_s
            if age_s <= min(READ_SHARE * reading.cost_s, FRESH_MAX_S):
                return known, False
            if reading.cost_s > SLOW_S and age_s <= AGE_MAX_S:
                return known, True
        return self._read(reading, read, known), False

    def renew(self, key: ReadingKey, read: Callable[[], T]) -> None:
        """Read it again, unless another thread does so now."""
        reading = self._reading(key)
        if not reading.reads.locked():
            self._read(reading, read, reading.value)

    def invalidate(self) -> None:
        """Forget all: the cluster has been changed."""
        with self._lock:
            self._readings.clear()

    def _reading(self, key: ReadingKey) -> _Reading:
        with self._lock:
            reading = self._readings.setdefault(key, _Reading())
            self._readings.move_to_end(key)
            while len(self._readings) > READINGS_MAX:
                self._readings.popitem(last=False)
            return reading

    def _read(self, reading: _Reading, read: Callable[[], T], known: T | None) -> T:
        with reading.reads:
            if reading.value is not None and reading.value is not known:
                return reading.value  # type: ignore[no-any-return]  # another thread has read it meanwhile
            begin_s = self._now_s()
            value = read()
            end_s = self._now_s()
            reading.value, reading.taken_s, reading.cost_s = value, end_s, end_s - begin_s
            return value
