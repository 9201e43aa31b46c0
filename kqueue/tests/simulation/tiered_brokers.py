"""Processes of simulated brokers that share a simulated object store."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast
from unittest.mock import patch

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.broker.tier import opening
from kqueue.testing.faulty_storage import PowerCut
from kqueue.tests.simulation.job_threads import JobThread, simulated_waits
from kqueue.tests.simulation.simulated_broker import JOB_MS, BrokerHost, BrokerProcess, SimulatedBroker, SimulatedJobs
from kqueue.tests.simulation.simulated_tier import TierFaults, TierLink, TierObjects
from kqueue.tier import manifest
from kqueue.tier.formats import manifest_root
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.retries import RetryingStore, RetryPolicy

T = TypeVar("T")
RETRIES = RetryPolicy(attempts_max=3, delay_ms=10, delay_max_ms=80, deadline_ms=1500, failures_max=6, open_ms=250)
PAGE_ITEMS, LIST_ITEMS_MAX = 2, 4
"""Bounds of manifests, so that a dozen segments make a tree of pages."""


class TieredHost(BrokerHost, Protocol):
    """Attributes: objects: the store. tier_links: by node id, of its newest process."""

    objects: TierObjects
    tier_links: dict[int, TierLink]
    tier_faults: TierFaults
    is_tier_away: bool


class TieredJobs(SimulatedJobs):
    """Runs jobs of the tier in threads that wait in virtual time, the others as `SimulatedJobs`."""

    def __init__(self, process: BrokerProcess, host: BrokerHost) -> None:
        super().__init__(process, host)
        self._threads: dict[JobThread, IoJob[Any]] = {}

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        if not isinstance(job, IoJob) or not job.queue.startswith("tier "):
            super().submit(job)
            return
        thread = JobThread(job.run, lambda thread: self._host.queue.after(0, lambda: self._step(thread)))
        self._threads[thread] = job
        self._host.queue.after(self._host.rng.random() * JOB_MS, lambda: self._step(thread))

    def _step(self, thread: JobThread) -> None:
        process = self._process
        if thread not in self._threads:
            return
        if process.node.is_paused:
            process.execute(lambda: self._step(thread))  # once it is resumed
            return
        thread.step()
        if thread.is_over:
            self._number += 1
            finish = self._outcome(thread)
            if finish is not None:
                self.tell(self._number, finish)

    def _outcome(self, thread: JobThread) -> Callable[[], object] | None:
        """Return what tells the result of a job that has ended."""
        job, error = self._threads.pop(thread), thread.error
        if isinstance(error, PowerCut):
            self._process.node.lose_power()
            return None
        if error is not None and not isinstance(error, Exception):
            raise error
        return functools.partial(job.finish, thread.result, error)

    def run_all(self) -> int:
        """Run all jobs at once; the store is closed."""
        count = super().run_all()
        while self._threads:
            for thread in list(self._threads):
                thread.step()
                if thread.is_over and (finish := self._outcome(thread)) is not None:
                    finish()
            count += 1
        return count + super().run_all()

    def end(self) -> None:
        """End the jobs where they wait."""
        threads, self._threads = self._threads, {}
        for thread in threads:
            thread.kill()


class TieredProcess(BrokerProcess):
    """One life of a broker with a way to the store."""

    jobs_type = TieredJobs

    def __init__(self, node: SimulatedBroker, host: BrokerHost, settings: dict[str, object]) -> None:
        super().__init__(node, host, settings)
        tiered = cast(TieredHost, host)

        def note(what: str, *details: object) -> None:
            host.note(what, node.number, *details)

        link = TierLink(tiered.objects, host.rng, host.queue, note)
        link.faults, link.is_away = tiered.tier_faults, tiered.is_tier_away
        self.tier_link = tiered.tier_links[node.number] = link


@contextlib.contextmanager
def simulated_stores(host: TieredHost) -> Iterator[None]:
    """Let brokers that start open the store of the simulation; manifests have small pages."""

    def open_store(config: Config) -> TierStore:
        return host.tier_links[config["node.id"]]

    def with_retries(store: TierLink, clock: Clock, rng: random.Random) -> TierStore:
        return RetryingStore(store, RETRIES, clock=clock, rng=random.Random(rng.getrandbits(32)), sleep=store.sleep)

    with contextlib.ExitStack() as stack:
        stack.enter_context(simulated_waits())
        stack.enter_context(patch.object(opening, "_open_store", open_store))
        stack.enter_context(patch.object(opening, "with_retries", with_retries))
        for module in (manifest, manifest_root):
            stack.enter_context(patch.object(module, "PAGE_ITEMS", PAGE_ITEMS))
            stack.enter_context(patch.object(module, "LIST_ITEMS_MAX", LIST_ITEMS_MAX))
        yield
