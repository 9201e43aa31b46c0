"""A whole broker without threads, sockets or real time: what it does depends on the seed and the
calls alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kqueue.base.promise import Promise
from kqueue.base.settings import Catalog, Config
from kqueue.base.virtual_time import advance_in_steps
from kqueue.broker import config as broker_config
from kqueue.broker.broker import Broker, node_id
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics import NewTopic, Topic
from kqueue.log.manager import LogManager
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import MetadataStore
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs

T = TypeVar("T")
CATALOG = Catalog(broker_config.SETTINGS)


class Simulation:
    """A broker on a manual clock with stepped jobs. `storage` and `store` outlive it: `restarted`
    goes on with them.

    Settings are the broker's own. With `kqueue.storage=local` (the default) it treats `storage` as
    a disk, flushing and all; with `memory` nothing is flushed.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        storage: Storage | None = None,
        store: MetadataStore | None = None,
        clock: ManualClock | None = None,
        seed: int = 0,
    ) -> None:
        self.settings = dict(settings or {})
        self.clock = clock or ManualClock()
        self.storage = storage if storage is not None else MemoryStorage(self.clock)
        self.store = store if store is not None else MemoryStore()
        self.jobs = SteppedJobs()
        rng = random.Random(seed)
        config = Config(CATALOG, self.settings)
        self.logs = LogManager(
            [self.storage],
            clock=self.clock,
            rng=rng,
            node_id=node_id(config),
            producer_expiration_ms=config["producer.id.expiration.ms"],
            producer_ids_max=config["kqueue.max.producer.ids"],
            jobs=self.jobs,
            reserve_bytes=config["kqueue.disk.reserve.bytes"],
        )
        self.broker = Broker(config, self.logs, self.store, clock=self.clock, jobs=self.jobs, rng=rng)
        self.broker.endpoints = lambda listener: ("127.0.0.1", 9092)
        self.broker.start()

    def settle(self) -> None:
        """Run jobs and ready waits until nothing is left to do at this moment."""
        while self.jobs.run_all() or self.broker.purgatory.run_ready():
            pass

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass, stopping at every timer on the way; all that becomes due is
        done on return.
        """
        for _ in advance_in_steps(self.broker.timers, self.clock, ms):
            self.settle()

    def result(self, promise: Promise[T]) -> T:
        """What the promise resolves to, once all that can be done now is done. Raises: what it
        failed with.
        """
        self.settle()
        return promise.result()

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        """Create a topic; settings with underscores for dots."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        return self.result(self.broker.topics.create(NewTopic(name, partitions, configs=dotted)))

    def answer(self, outcome: DelayedOperation[T] | T) -> T:
        """The response of a handler that may have left a wait: time passes until it is answered, up
        to its deadline.
        """
        if not isinstance(outcome, DelayedOperation):
            return outcome
        answers: list[Any] = []
        waiter = self.broker.purgatory.add(outcome, answers.append)
        self.settle()
        while not answers:
            deadline = self.broker.timers.next_deadline_ms()
            assert deadline is not None, f"nothing will ever answer {waiter.operation}"
            self.advance(deadline - self.clock.monotonic_ms())
        return answers[0]  # type: ignore[no-any-return]

    def stop(self) -> None:
        """A clean stop."""
        self.broker.prepare_stop()
        self.settle()
        self.broker.stop()

    def restarted(self, change: Callable[[dict[str, object]], None] = lambda settings: None) -> Simulation:
        """A new broker on the same storage, store and clock, after this one was stopped (or left to
        die).
        """
        settings = dict(self.settings)
        change(settings)
        return Simulation(
            settings, storage=self.storage, store=self.store, clock=self.clock, seed=self.broker.leader_epoch + 1
        )
