from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kqueue.base.errors import Conflict, KqueueError, StorageFailed
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.metadata.producer_ids import BLOCK_COUNT, KEY, ProducerIds
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.simulation import Simulation
from kqueue.testing.stepped_jobs import SteppedJobs


def test_every_id_is_given_once_over_blocks_and_restarts() -> None:
    sim = Simulation()
    given = [sim.result(sim.broker.metadata.producer_ids.allocate()) for _ in range(BLOCK_COUNT + 3)]
    sim.stop()
    again = sim.restarted()
    given += [again.result(again.broker.metadata.producer_ids.allocate()) for _ in range(3)]
    assert len(set(given)) == len(given)
    assert min(given) >= 0


def test_requests_during_the_store_of_a_block_are_served_in_order() -> None:
    sim = Simulation()
    promises = [sim.broker.metadata.producer_ids.allocate() for _ in range(2 * BLOCK_COUNT + 1)]
    assert not promises[0].done
    sim.settle()
    assert [promise.result() for promise in promises] == list(range(2 * BLOCK_COUNT + 1))


class BrokenStore(MemoryStore):
    broken = False

    def commit(self, guards, puts, deletes):  # type: ignore[no-untyped-def]
        if self.broken:
            raise OSError("no space left")
        return super().commit(guards, puts, deletes)


def test_ids_of_a_block_that_is_not_stored_are_not_allocated() -> None:
    store = BrokenStore()
    sim = Simulation(store=store)
    store.broken = True
    promises = [sim.broker.metadata.producer_ids.allocate() for _ in range(3)]
    sim.settle()
    for promise in promises:
        with pytest.raises(StorageFailed, match="could not reserve producer ids: no space left"):
            promise.result()
    store.broken = False
    assert sim.result(sim.broker.metadata.producer_ids.allocate()) == BLOCK_COUNT, (
        "the block that failed stays reserved"
    )


class SharedMetadata(MetadataCache):
    """That of a broker whose store others change too: it knows what was first after a conflict."""

    def commit(
        self, what: str, puts: Mapping[str, bytes | None], done: Callable[[KqueueError | None], None], **more: Any
    ) -> None:
        def finish(error: KqueueError | None) -> None:
            self.load()
            done(error)

        super().commit(what, puts, finish, **more)


def test_brokers_of_one_store_share_the_ids_in_blocks() -> None:
    sim, jobs, store = Simulation(), SteppedJobs(), MemoryStore()
    caches = [SharedMetadata(store, jobs, sim.broker.scheduler.purgatory) for _ in range(3)]
    sources = [ProducerIds(cache, node_id) for node_id, cache in enumerate(caches)]
    promises = [source.allocate() for _ in range(2 * BLOCK_COUNT) for source in sources]
    jobs.run_all()
    given = [promise.result() for promise in promises]
    assert sorted(given) == list(range(6 * BLOCK_COUNT))


def test_a_broker_that_always_comes_second_gives_up() -> None:
    sim, jobs, store = Simulation(), SteppedJobs(), MemoryStore()
    producer_ids = ProducerIds(MetadataCache(store, jobs, sim.broker.scheduler.purgatory), 1)
    store.commit({}, {KEY: b'{"next": 5000}'}, [])
    promise = producer_ids.allocate()
    jobs.run_all()
    assert type(promise.error) is Conflict
