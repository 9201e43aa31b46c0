"""Power cuts of brokers of a `kqueue.Cluster`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.testing.faulty_storage import FaultyStorage, Remains

if TYPE_CHECKING:
    from kqueue.embedded import Cluster


class PowerCutDisks:
    """Disks in memory, one for each broker of a cluster, which lose what was not synced when the
    power is cut.

    ``disks = PowerCutDisks()``, ``kqueue.Cluster(storages=disks)``, ``disks.cut(cluster, 0)``.

    Args: seed: of what remains after `Remains.TORN`.
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._disks: dict[int, FaultyStorage] = {}

    def __call__(self, broker: int, clock: Clock) -> FaultyStorage:
        """Return the disk of a broker; a new one is empty."""
        return self._disks.setdefault(broker, FaultyStorage(clock=clock))

    def cut(self, cluster: Cluster, *brokers: int, remains: Remains = Remains.LOST) -> None:
        """Cut the power of brokers, all at the same moment: they end as with `Cluster.kill`, and
        their disks keep what was synced, and of the rest what `remains` says.
        """
        cluster.kill(*brokers)
        for broker in brokers:
            self._disks[broker] = self._disks[broker].after_cut(remains, self._rng)
