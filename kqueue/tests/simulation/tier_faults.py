"""The faults of a simulated cluster with a tier, beside those of `cluster_faults`."""

from __future__ import annotations

from typing import Protocol, cast

from kqueue.tests.simulation.cluster_faults import LONG_MS, ClusterFaults, FaultyCluster
from kqueue.tests.simulation.simulated_broker import SimulatedBroker
from kqueue.tests.simulation.simulated_tier import TierFaults, TierLink

ALONE_MS = 1400.0
"""After so long without the others a leader is alone in sync."""
TURN_MS = 2200.0
"""So long another broker leads: sessions end after 900 ms."""


class FaultyTier(FaultyCluster, Protocol):
    """Attributes: see `tiered_brokers.TieredHost`."""

    tier_links: dict[int, TierLink]
    tier_faults: TierFaults
    is_tier_away: bool


class TieredFaults(ClusterFaults):
    """Draws faults of brokers, disks and of the object store."""

    def __init__(self, world: FaultyTier) -> None:
        super().__init__(world)
        self._kinds += [
            (2, self._lose_tier),
            (1, self._lose_tier_everywhere),
            (2, self._slow_tier),
            (2, self._lose_disk),
            (2, self._become_a_zombie),
            (2, self._lead_alone),
        ]
        self._total = sum(weight for weight, _ in self._kinds)

    @property
    def _tiered(self) -> FaultyTier:
        return cast(FaultyTier, self._world)

    def end(self) -> None:
        self._tiered.tier_faults = TierFaults()
        self._tiered.is_tier_away = False
        for link in self._tiered.tier_links.values():
            link.is_away = link.is_slow = False
            link.faults = TierFaults()
        super().end()

    def _lose_tier(self, broker: SimulatedBroker) -> None:
        """One process can't reach the object store."""
        link = self._tiered.tier_links[broker.number]
        self._world.note("tier away", broker.number)
        link.is_away = True

        def end() -> None:
            link.is_away = False

        self._lasts(end)

    def _lose_tier_everywhere(self, broker: SimulatedBroker) -> None:
        world = self._tiered
        self._world.note("tier away", 0)
        world.is_tier_away = True
        for link in world.tier_links.values():
            link.is_away = True

        def end() -> None:
            world.is_tier_away = False
            for link in world.tier_links.values():
                link.is_away = False

        self._lasts(end)

    def _slow_tier(self, broker: SimulatedBroker) -> None:
        """The calls of one process take so long that others may lead when they arrive."""
        link = self._tiered.tier_links[broker.number]
        self._world.note("tier slow", broker.number)
        link.is_slow = True

        def end() -> None:
            link.is_slow = False

        self._lasts(end)

    def _lose_disk(self, broker: SimulatedBroker) -> None:
        broker.lose_disk()
        self._lasts(broker.start)

    def _lead_alone(self, broker: SimulatedBroker) -> None:
        """Cut a broker off from the others until it is alone in sync where it leads; then let it
        die, and the others go on without it. One of them may not reach the store at first.
        """
        world, others = self._world, [each for each in self._world.brokers.values() if each is not broker]
        ways = [way for node in world.brokers if node != broker.number for way in _both(broker.number, node)]
        world.note("alone", broker.number)
        world.network.cuts.update(ways)

        def end() -> None:
            if broker.process is not None:
                broker.kill()
            world.network.mend(*ways)
            self._lasts(broker.start)
            if world.rng.random() < 0.6:
                self._lose_tier(others[int(world.rng.random() * len(others))])

        world.queue.after(LONG_MS * (0.4 + 0.6 * world.rng.random()), end)

    def take_turns(self, first: SimulatedBroker) -> None:
        """Two brokers lead one after the other, each without the records of the other's turn: the
        first until it is alone in sync, the second alone, the first again; then all come back.
        """
        world, (second, third) = self._world, [each for each in self._world.brokers.values() if each is not first]
        ways = [way for node in world.brokers if node != first.number for way in _both(first.number, node)]

        def turn() -> None:
            world.note("turn", second.number)
            for broker in (first, third):
                if broker.process is not None:
                    broker.kill()
            world.network.mend(*ways)

        def turn_back() -> None:
            world.note("turn", first.number)
            if second.process is not None:
                second.kill()
            first.start()

        def end() -> None:
            for broker in (first, second, third):
                broker.start()

        world.note("turn", first.number)
        world.network.cuts.update(ways)
        for turn_ms, run in ((ALONE_MS, turn), (ALONE_MS + TURN_MS, turn_back), (ALONE_MS + 2 * TURN_MS, end)):
            world.queue.after(turn_ms, run)

    def _become_a_zombie(self, broker: SimulatedBroker) -> None:
        """A broker goes on with the object store, and reaches no other broker."""
        process = broker.process
        if process is None:
            return
        self._part(broker)
        self._world.note("zombie", broker.number)
        process.link.is_away = True

        def end() -> None:
            process.link.is_away = False

        self._world.queue.after(LONG_MS * self._world.rng.random(), end)


def _both(one: int, other: int) -> list[tuple[int, int]]:
    return [(one, other), (other, one)]
