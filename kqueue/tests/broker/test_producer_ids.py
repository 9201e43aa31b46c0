from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.producer_ids import BLOCK_COUNT
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.simulation import Simulation


def test_every_id_is_given_once_over_blocks_and_restarts() -> None:
    sim = Simulation()
    given = [sim.result(sim.broker.producer_ids.allocate()) for _ in range(BLOCK_COUNT + 3)]
    sim.stop()
    again = sim.restarted()
    given += [again.result(again.broker.producer_ids.allocate()) for _ in range(3)]
    assert len(set(given)) == len(given)
    assert min(given) >= 0


def test_requests_during_the_store_of_a_block_are_served_in_order() -> None:
    sim = Simulation()
    promises = [sim.broker.producer_ids.allocate() for _ in range(2 * BLOCK_COUNT + 1)]
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
    promises = [sim.broker.producer_ids.allocate() for _ in range(3)]
    sim.settle()
    for promise in promises:
        with pytest.raises(StorageFailed, match="could not reserve producer ids: no space left"):
            promise.result()
    store.broken = False
    assert sim.result(sim.broker.producer_ids.allocate()) == 0
