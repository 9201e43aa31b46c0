"""`ClusterCache`: the metadata of the whole cluster, read no more often than it is worth.

With 1,000 topics of 20 partitions a broker takes a quarter of a second to send it, and a client as
long to read it. A page that took longer to read than `SLOW_S` is shown from the last reading, and
the next one is made after the page has been sent.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from kqueue.base.clock import monotonic_s
from kqueue.client import ClusterMetadata

LOGINS_MAX = 16
SLOW_S = 0.05
AGE_MAX_S = 60.0
READ_SHARE = 10


@dataclass(slots=True)
class _Reading:
    """The last metadata of a login. `reads`: held while it is read."""

    reads: threading.Lock = field(default_factory=threading.Lock)
    metadata: ClusterMetadata | None = None
    taken_s: float = 0.0
    cost_s: float = 0.0


class ClusterCache:
    """The last metadata of each login: what one may see, another may not.

    A reading serves for `READ_SHARE` times as long as it took, so reading takes a tenth of the
    time at most.

    Thread: any.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._readings: OrderedDict[str, _Reading] = OrderedDict()

    def metadata(self, login_id: str, read: Callable[[], ClusterMetadata]) -> tuple[ClusterMetadata, bool]:
        """Return the metadata, and whether it is to be read again once the page has been sent.

        Args:
            read: reads it; what it raises is raised.
        """
        reading = self._reading(login_id)
        known = reading.metadata
        if known is not None:
            age_s = self._now_s() - reading.taken_s
            if age_s <= READ_SHARE * reading.cost_s:
                return known, False
            if reading.cost_s > SLOW_S and age_s <= AGE_MAX_S:
                return known, True
        return self._read(reading, read, known), False

    def renew(self, login_id: str, read: Callable[[], ClusterMetadata]) -> None:
        """Read the metadata again, unless another thread does so now."""
        reading = self._reading(login_id)
        if not reading.reads.locked():
            self._read(reading, read, reading.metadata)

    def invalidate(self) -> None:
        """Forget all: the cluster has been changed."""
        with self._lock:
            self._readings.clear()

    def _reading(self, login_id: str) -> _Reading:
        with self._lock:
            reading = self._readings.setdefault(login_id, _Reading())
            self._readings.move_to_end(login_id)
            while len(self._readings) > LOGINS_MAX:
                self._readings.popitem(last=False)
            return reading

    def _read(
        self, reading: _Reading, read: Callable[[], ClusterMetadata], known: ClusterMetadata | None
    ) -> ClusterMetadata:
        with reading.reads:
            if reading.metadata is not None and reading.metadata is not known:
                return reading.metadata  # another thread has read it meanwhile
            begin_s = self._now_s()
            metadata = read()
            end_s = self._now_s()
            reading.metadata, reading.taken_s, reading.cost_s = metadata, end_s, end_s - begin_s
            return metadata
