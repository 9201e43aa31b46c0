"""The power goes at every step while a share group works: what was accepted never comes again, and
every other record does.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, REJECT, RELEASE, Member, acquired, data_of, earliest, fill
from kqueue.tests.thorough import corners

RECORDS = 8
SETTINGS = {"share.coordinator.snapshot.update.records.per.snapshot": 1}


class Told:
    """What the client was told, and what it asked for last."""

    def __init__(self) -> None:
        self.done: set[int] = set()
        self.asked: set[int] = set()
        self.filled = False


def _run(storage: FaultyStorage, store: MemoryStore, told: Told) -> int:
    """Let a member work; return how many steps of the disk come before."""
    client = SimulatedClient(sim=Simulation(SETTINGS, storage=storage, store=store))
    client.sim.topic("t")
    earliest(client)
    fill(client, RECORDS)
    told.filled = True
    filled_at = len(storage.steps)
    member = Member(client)
    assert acquired(member.fetch()) == [(0, RECORDS - 1, 1)]
    for offset, type in ((3, ACCEPT), (0, ACCEPT), (1, RELEASE), (2, REJECT), (5, ACCEPT)):
        if type != RELEASE:
            told.asked.add(offset)
        assert data_of(member.acknowledge((offset, offset, type))).error_code == 0
        told.done = set(told.asked)
        if offset == 2:
            client.sim.advance(300_000)  # prunes the log; the other locks end
            assert acquired(member.fetch()) != []
    return filled_at


@pytest.mark.parametrize("every", corners([1, 25], 25))
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_accepted_records_are_not_delivered_again_after_a_crash(remains: Remains, every: int) -> None:
    """`every`: so many steps are between two cuts, for each kind of remains at others."""
    whole, everything = FaultyStorage(), Told()
    filled_at = _run(whole, MemoryStore(), everything)
    assert everything.done == {0, 2, 3, 5}
    for cut_at in range(filled_at + 1 + list(Remains).index(remains) % every, len(whole.steps) + 1, every):
        storage, store, told = FaultyStorage(cut_at=cut_at), MemoryStore(), Told()
        with contextlib.suppress(PowerCut):
            _run(storage, store, told)
        assert told.filled
        left = storage.after_cut(remains, random.Random(cut_at))
        client = SimulatedClient(sim=Simulation(SETTINGS, storage=left, store=store))
        ranges = acquired(Member(client).fetch())
        again = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
        assert not again & told.done, cut_at
        assert set(range(RECORDS)) - told.asked <= again, cut_at
