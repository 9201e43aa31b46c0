"""The faults of a simulated cluster."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Protocol

from kqueue.tests.simulation.event_queue import EventQueue
from kqueue.tests.simulation.simulated_broker import SimulatedBroker
from kqueue.tests.simulation.simulated_network import Network

SHORT_MS = 300.0
LONG_MS = 2500.0
"""ClusterFaults last for up to the one or the other: sessions end after 900 ms."""
CUT_SOON = 12
"""A power cut in the middle of work comes within so many operations of the disk."""


class FaultyCluster(Protocol):
    """What breaks.

    Attributes:
        client_numbers: of the clients that can be cut off.
        store_failures: of brokers that start; see `StoreLink`.
    """

    rng: random.Random
    queue: EventQueue
    network: Network
    brokers: dict[int, SimulatedBroker]
    client_numbers: list[int]
    store_failures: float

    def note(self, what: str, node: int, *details: object) -> None:
        """Pass a line to the trace."""

    def reassign(self, replicas: list[int]) -> None:
        """Ask a broker to move a partition to other brokers, the first of which is preferred."""


class ClusterFaults:
    """Draws faults, and ends each of them after a while."""

    def __init__(self, world: FaultyCluster) -> None:
        self._world = world
        self._kinds: list[tuple[float, Callable[[SimulatedBroker], None]]] = [
            (2, self._kill),
            (2, self._lose_power),
            (1, self._lose_power_soon),
            (2, self._restart),
            (1, self._leave),
            (2, self._pause),
            (2, self._part),
            (1, self._cut),
            (2, self._reset),
            (2, self._lose_store),
            (1, self._end_session),
            (1, self._fill_disk),
            (2, self._reassign),
        ]
        self._total = sum(weight for weight, _ in self._kinds)

    def one(self) -> None:
        """Let something break."""
        random = self._world.rng.random
        brokers = list(self._world.brokers.values())
        broker = brokers[int(random() * len(brokers))]
        choice = random() * self._total
        for weight, kind in self._kinds:
            choice -= weight
            if choice < 0:
                kind(broker)
                return

    def end(self) -> None:
        """End all faults: every broker runs, and all ways are open."""
        world = self._world
        world.store_failures = 0.0
        world.network.mend(*world.network.cuts.copy())
        for broker in world.brokers.values():
            broker.storage.cut_at = None
            broker.storage.mend()
            if broker.process is not None:
                broker.process.link.is_away = False
                broker.process.link.failures = 0.0
            broker.resume()
            broker.start()

    def _lasts(self, end: Callable[[], None]) -> None:
        random = self._world.rng.random
        self._world.queue.after(random() * (SHORT_MS if random() < 0.5 else LONG_MS), end)

    # --- processes

    def _kill(self, broker: SimulatedBroker) -> None:
        if broker.process is not None:
            broker.kill()
        self._lasts(broker.start)

    def _lose_power(self, broker: SimulatedBroker) -> None:
        if broker.process is not None:
            broker.lose_power()
        self._lasts(broker.start)

    def _lose_power_soon(self, broker: SimulatedBroker) -> None:
        if broker.process is not None:
            broker.storage.cut_at = len(broker.storage.steps) + 1 + int(self._world.rng.random() * CUT_SOON)
        self._lasts(broker.start)

    def _restart(self, broker: SimulatedBroker) -> None:
        if broker.process is not None and not broker.is_paused:
            broker.stop()
        self._lasts(broker.start)

    def _leave(self, broker: SimulatedBroker) -> None:
        broker.leave()
        self._world.queue.after(LONG_MS, broker.start)

    def _pause(self, broker: SimulatedBroker) -> None:
        broker.pause()
        self._lasts(broker.resume)

    # --- network

    def _part(self, broker: SimulatedBroker) -> None:
        """Cut a broker off from the others, or also from the clients."""
        others = [node for node in self._world.brokers if node != broker.number]
        if self._world.rng.random() < 0.5:
            others += self._world.client_numbers
        ways = [(broker.number, node) for node in others] + [(node, broker.number) for node in others]
        self._cut_ways(ways)

    def _cut(self, broker: SimulatedBroker) -> None:
        """Cut one way between two brokers, one or both directions."""
        others = [node for node in self._world.brokers if node != broker.number]
        other = others[int(self._world.rng.random() * len(others))]
        self._cut_ways([(broker.number, other)])

    def _cut_ways(self, ways: list[tuple[int, int]]) -> None:
        network = self._world.network
        self._world.note("cut", 0, ways)
        network.cuts.update(ways)
        self._lasts(lambda: network.mend(*ways))

    def _reset(self, broker: SimulatedBroker) -> None:
        self._world.network.reset_some()

    def _reassign(self, broker: SimulatedBroker) -> None:
        """Move a partition; the broker becomes its preferred leader."""
        others = [node for node in self._world.brokers if node != broker.number]
        self._world.rng.shuffle(others)
        self._world.reassign([broker.number, *others])

    # --- store and disk

    def _lose_store(self, broker: SimulatedBroker) -> None:
        process = broker.process
        if process is None:
            return
        self._world.note("store away", broker.number)
        process.link.is_away = True

        def end() -> None:
            process.link.is_away = False

        self._lasts(end)

    def _end_session(self, broker: SimulatedBroker) -> None:
        """End a session in the store, as if its signs of life had been late."""
        process = broker.process
        session = None if process is None else process.member.registration.session
        if session is not None:
            self._world.note("session ends", broker.number)
            session.inner.end()  # type: ignore[attr-defined]

    def _fill_disk(self, broker: SimulatedBroker) -> None:
        storage = broker.storage
        self._world.note("disk full", broker.number)
        storage.fail("append", number=errno.ENOSPC)
        self._lasts(storage.mend)


class FolderCopy:
    """A data folder that is copied while its broker does not run, and put back some steps later,
    once in a run: what the broker confirmed meanwhile is missing.

    Its random numbers are its own, so that a seed does the same with and without it.
    """

    def __init__(self, world: FaultyCluster, seed: int, steps: int) -> None:
        rng = self._rng = random.Random(f"copy {seed}")
        self._world = world
        self._broker = rng.choice(list(world.brokers.values()))
        self._copied_at = rng.randrange(max(steps // 2, 1))
        self._put_back_at = rng.randrange(self._copied_at, max(steps, 1)) + 1
        self._step = -1

    def step(self) -> None:
        """Do what is due in this step of the run."""
        self._step += 1
        if self._step == self._copied_at:
            self._broker.kill()
            self._broker.copy_folder()
            self._broker.start()
        elif self._step == self._put_back_at:
            for broker in self._world.brokers.values():
                broker.kill()
            self._broker.put_back()
            self._broker.start()
            for broker in self._world.brokers.values():
                self._world.queue.after(self._rng.random() * 2 * LONG_MS, broker.start)
