"""A deterministic broker without threads, sockets or real time.

Its behaviour depends only on the seed and the calls.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kqueue.base.config import Config
from kqueue.base.promise import Promise
from kqueue.base.settings import Catalog
from kqueue.base.virtual_time import advance_in_steps
from kqueue.broker import config as broker_config
from kqueue.broker.broker import Broker
from kqueue.broker.metadata.identity import node_id
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import NewTopic, Topic
from kqueue.log.manager import LogManager
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import MetadataStore
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs

T = TypeVar("T")
CATALOG = Catalog(broker_config.SETTINGS)


class Simulation:
    """A broker on a manual clock with stepped jobs.

    `restarted` starts a new broker on the same `storage` and `store`.

    Args:
        settings: settings of the broker. With `kqueue.storage=local` (the default) the broker
            flushes `storage` like a disk; with `memory` it does not flush.
        more_storages: other data folders, beside `storage`.
        seed: seeds the broker's random numbers.
        recovers: begin when all logs are recovered and groups loaded; False: run no job yet.
        before_start: called with the broker before it starts.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        storage: Storage | None = None,
        more_storages: Sequence[Storage] = (),
        store: MetadataStore | None = None,
        clock: ManualClock | None = None,
        seed: int = 0,
        recovers: bool = True,
        before_start: Callable[[Broker], None] | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self.clock = clock or ManualClock()
        self.storage = storage if storage is not None else MemoryStorage(self.clock)
        self.more_storages = more_storages
        self.store = store if store is not None else MemoryStore()
        self.jobs = SteppedJobs()
        rng = random.Random(seed)
        config = Config(CATALOG, self.settings)
        self.logs = LogManager(
            [self.storage, *self.more_storages],
            clock=self.clock,
            rng=rng,
            node_id=node_id(config),
            producer_expiration_ms=config["producer.id.expiration.ms"],
            producer_ids_max=config["kqueue.max.producer.ids"],
            jobs=self.jobs,
            reserve_bytes=config["kqueue.disk.reserve.bytes"],
        )
        self.broker = Broker(config, self.logs, self.store, clock=self.clock, jobs=self.jobs, rng=rng)
        self.broker.identity.endpoints = lambda listener: ("127.0.0.1", 9092)
        self._calls: deque[Callable[[], None]] = deque()
        self.broker.scheduler.wake = self._calls.append
        if before_start is not None:
            before_start(self.broker)
        self.broker.start()
        if recovers:
            self.settle()

    def settle(self) -> None:
        """Run jobs and ready delayed operations until none is left at the current time."""
        while self.settle_once():
            pass

    def settle_once(self) -> bool:
        """Run what is ready now; return whether there was anything."""
        return bool(self.jobs.run_all() or self.broker.scheduler.purgatory.run_ready() or self._run_calls())

    def _run_calls(self) -> bool:
        """Make the calls from outside, such as those of the store's watch."""
        calls = list(self._calls)
        self._calls.clear()
        for call in calls:
            call()
        return bool(calls)

    def advance(self, ms: float) -> None:
        """Advance the clock by `ms` milliseconds, and run all timers and jobs that become due."""
        for _ in advance_in_steps(self.broker.scheduler.timers, self.clock, ms):
            self.settle()

    def result(self, promise: Promise[T]) -> T:
        """Run all pending work and return the result of the promise.

        Raises: the error that the promise failed with.
        """
        self.settle()
        return promise.result()

    def topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        """Create a topic; names of settings have underscores for dots."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        return self.result(self.broker.topics.create(NewTopic(name, partitions, configs=dotted)))

    def answer(self, outcome: DelayedOperation[T] | T) -> T:
        """Return the response of a handler, which may be a delayed operation.

        Advances the clock, at most to the deadline, until the operation completes.
        """
        if not isinstance(outcome, DelayedOperation):
            return outcome
        answers: list[Any] = []
        waiter = self.broker.scheduler.purgatory.add(outcome, answers.append)
        self.settle()
        while not answers:
            deadline = self.broker.scheduler.timers.next_deadline_ms()
            assert deadline is not None, f"no timer is left that could complete {waiter.operation}"
            self.advance(deadline - self.clock.monotonic_ms())
        return answers[0]  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Stop the broker cleanly."""
        self.broker.prepare_stop()
        self.settle()
        self.broker.stop()

    def restarted(self, change: Callable[[dict[str, object]], None] = lambda settings: None) -> Simulation:
        """Start a new broker on the same storage, store and clock.

        Without a preceding `stop` this simulates a crash.

        Args:
            change: modifies the settings.
        """
        settings = dict(self.settings)
        change(settings)
        return Simulation(
            settings,
            storage=self.storage,
            more_storages=self.more_storages,
            store=self.store,
            clock=self.clock,
            seed=self.broker.replicas.host.sole_replica.leader_epoch + 1,
        )
