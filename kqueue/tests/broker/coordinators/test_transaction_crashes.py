"""The power goes at every step of transactions over two partitions: they stay atomic, what a client
was told holds, and none stays open.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field

import pytest

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.broker.fetch.test_read_committed_machine import READ_COMMITTED, consume
from kqueue.tests.thorough import corners, parts

TIMEOUT_MS = 60_000
OUTCOMES = (True, False)
"""Commit or abort, of one transaction after the other."""


@dataclass
class Told:
    """The client's knowledge: transactions with an answer to EndTxn, and with produced records."""

    ended: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)


def _run(storage: FaultyStorage, store: MemoryStore, told: Told, version: int) -> None:
    client = SimulatedClient(sim=Simulation(storage=storage, store=store))
    sim = client.sim
    sim.topic("t", 2)
    coordinator = sim.broker.coordinators.transactions
    producer = sim.result(coordinator.init_producer_id("tx", TIMEOUT_MS))
    sequence, transaction_version = 0, 2 if version >= 12 else 0
    for number, commit in enumerate(OUTCOMES):
        if version < 12:
            added = coordinator.add_partitions(
                "tx", *producer, [("t", 0), ("t", 1)], transaction_version=transaction_version
            )
            sim.result(added)
        for index in range(2):
            raw = batch(
                b"%d" % number,
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            answer = client.produce("t", raw, version=version, partition=index, transactional_id="tx")
            assert answer.error_code == 0
        sequence += 1
        told.asked.append(number)
        ended = coordinator.end("tx", *producer, commit, transaction_version=transaction_version)
        sim.settle()
        sim.advance(100)
        after = ended.result()
        told.ended.append(number)
        if after != producer:
            producer, sequence = after, 0


def _visible(client: SimulatedClient, index: int) -> list[bytes | None]:
    records, _ = consume(client, 0, READ_COMMITTED, 1 << 20, index)
    return [record.value for record in records]


@parts(6)
@pytest.mark.parametrize(
    ("remains", "version"),
    corners([(Remains.LOST, 12), (Remains.KEPT, 12), (Remains.TORN, 12), (Remains.TORN, 11)], (Remains.TORN, 12)),
)
def test_transactions_are_atomic_whenever_the_power_goes(remains: Remains, version: int, part: slice) -> None:
    whole, everything = FaultyStorage(), Told()
    _run(whole, MemoryStore(), everything, version)
    assert everything.ended == [0, 1]
    for cut_at in range(1, len(whole.steps) + 1)[part]:
        storage, store, told = FaultyStorage(cut_at=cut_at), MemoryStore(), Told()
        with contextlib.suppress(PowerCut):
            _run(storage, store, told, version)
        left = storage.after_cut(remains, random.Random(cut_at))
        client = SimulatedClient(sim=Simulation(storage=left, store=store))
        sim = client.sim
        topic = sim.broker.topics.find("t")
        if topic is None:
            continue
        sim.advance(1000)  # the coordinator completes what it has decided
        first, second = _visible(client, 0), _visible(client, 1)
        assert first == second, cut_at
        committed = [b"%d" % number for number in told.ended if OUTCOMES[number]]
        asked = [b"%d" % number for number in told.asked if OUTCOMES[number]]
        assert first in (committed, asked), cut_at
        sim.advance(2 * TIMEOUT_MS)  # and aborts what has no end
        for partition in topic.partitions:
            assert partition.last_stable_offset == partition.log_end_offset, cut_at
        assert _visible(client, 0) == _visible(client, 1) == first
