"""Transfers between accounts, with a kill between any two steps of the teller and of the disk."""

from __future__ import annotations

import random

import pytest

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.bank import ORDERS, SETTINGS, Teller, TellerRefused, balances, expected, open_bank, sums_up
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

VERSIONS = (1, 2)
KILLS = 3
STRIDE = 5
"""An odd number: every other kill is before a request of the other version."""
STRIDES = corners([25, STRIDE])
REQUEST_STRIDES = corners([STRIDE, 1])


def bank() -> SimulatedClient:
    sim = Simulation({"kqueue.storage": "memory", **SETTINGS})
    open_bank(sim)
    return SimulatedClient(sim=sim)


def work(client: SimulatedClient, version: int) -> int:
    """Let a teller carry out what is left; returns its number of requests."""
    requests = 0
    for _ in Teller(client, version).run():
        sums_up(client)
        requests += 1
    client.sim.advance(1_000)
    return requests


@pytest.mark.parametrize("stride", REQUEST_STRIDES)
@for_each("version", VERSIONS)
def test_a_teller_is_killed_before_each_of_its_requests(version: int, stride: int) -> None:
    """Its successor carries on; then the killed teller wakes up, and can't do any harm."""
    kill_at = 0
    while True:
        client = bank()
        killed = Teller(client, version).run()
        for _ in range(kill_at + 1):
            if next(killed, None) is None:
                break
        else:
            work(client, 3 - version if kill_at % 2 else version)
            assert balances(client) == expected(len(ORDERS)), f"killed before request {kill_at}"
            for _ in _until_refused(killed):
                sums_up(client)
            client.sim.advance(1_000)
            assert balances(client) == expected(len(ORDERS)), f"zombie of request {kill_at}"
            kill_at += stride
            continue
        assert balances(client) == expected(len(ORDERS))
        return


def _until_refused(steps: object) -> list[str]:
    """Go on with a teller until it is refused. One killed before its InitProducerId may become the
    next teller, and finds nothing left to do.
    """
    done = []
    try:
        done.extend(steps)  # type: ignore[call-overload]
    except TellerRefused as error:
        done.append(str(error))
    return done


@pytest.mark.parametrize("stride", REQUEST_STRIDES)
@for_each("version", VERSIONS)
def test_the_broker_restarts_before_each_request(version: int, stride: int) -> None:
    """Without a stop, as after kill -9; the teller goes on with the request that it was about to
    send.
    """
    client = bank()
    count = work(client, version)
    for restart_at in range(0 if stride == 1 else version, count, stride):
        storage = FaultyStorage()
        client, store = _disk_bank(storage, MemoryStore())
        for number, _ in enumerate(Teller(client, version).run()):
            if number == restart_at:
                left = storage.after_cut(Remains.KEPT, random.Random(number))
                client.sim = Simulation(dict(SETTINGS), storage=left, store=store, clock=client.sim.clock)
                client.sim.advance(1)  # what was decided is completed
            sums_up(client)
        client.sim.advance(1_000)
        assert balances(client) == expected(len(ORDERS)), f"restarted before request {restart_at}"


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
@for_each("version", VERSIONS)
def test_the_power_is_cut_at_steps_of_the_disk(version: int, remains: Remains, stride: int) -> None:
    """A new broker and a new teller carry on, and lose power too, until one is through."""
    rng = random.Random(version)
    whole = FaultyStorage()
    client, store = _disk_bank(whole, MemoryStore())
    begun = len(whole.steps)
    work(client, version)
    steps = len(whole.steps) - begun
    assert steps > 20
    for cut_at in range(1 + version % 2, steps + 1, stride):
        storage, store = FaultyStorage(), MemoryStore()
        client, store = _disk_bank(storage, store)
        storage.cut_at = len(storage.steps) + cut_at
        for kills in range(KILLS + 2):  # the last one is not killed
            try:
                work(client, version)
                break
            except PowerCut:
                later = None if kills >= KILLS else rng.randrange(1, steps)
                storage = storage.after_cut(remains, rng)
                sim = Simulation(dict(SETTINGS), storage=storage, store=store)
                client = SimulatedClient(sim=sim)
                sim.advance(1)  # what was decided is completed: until then only some partitions show it
                storage.cut_at = None if later is None else len(storage.steps) + later
        assert balances(client) == expected(len(ORDERS)), f"cut at step {cut_at}"


def _disk_bank(storage: FaultyStorage, store: MemoryStore) -> tuple[SimulatedClient, MemoryStore]:
    sim = Simulation(dict(SETTINGS), storage=storage, store=store)
    open_bank(sim)
    return SimulatedClient(sim=sim), store
