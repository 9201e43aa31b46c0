"""Replicas of a tiered topic through failovers, lost disks, full disks and a store that fails at
random: each record that was committed is read once, wherever it is.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator

import pytest

from kqueue.base.errors import LogRecovering
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.tier_faults import FaultyTierStore, lost_answer, unavailable
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import elect
from kqueue.tests.broker.tier.tiered_brokers import tier_of_members
from kqueue.tests.interbroker.fetching_members import FetchingMembers
from kqueue.tests.interbroker.test_tiered_replicas import ROUND_MS, expected, read_all, stop, tiered_members
from kqueue.tests.thorough import corners
from kqueue.tier.stores.memory import MemoryTierStore

STEPS = 25


@pytest.fixture
def faulty(request: pytest.FixtureRequest) -> Iterator[FaultyTierStore]:
    store = FaultyTierStore(MemoryTierStore(f"faults-{request.node.callspec.params['seed']}"))
    with tier_of_members(store):
        yield store


class Run:
    """One run: what is committed is `count` records, v0 and so on."""

    def __init__(self, store: FaultyTierStore, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = store
        self.disks: dict[int, FaultyStorage] = {}
        self.is_full: dict[int, bool] = {}
        self.members: FetchingMembers = tiered_members()
        for node in (1, 2, 3):
            self.restart(node, keeps_disk=False)
        self.count = self.begin = 0
        self.leader = 1

    def produce(self) -> None:
        for _ in range(self.rng.randrange(1, 12)):
            try:
                append(self.members.partition(self.leader), b"v%d" % self.count)
            except LogRecovering:
                return  # a leader without a record, while the store does not answer
            self.members.settle()
            self.count += 1
        self.members.advance(200)

    def wait(self) -> None:
        self.members.advance(self.rng.choice([300, 1000, ROUND_MS]))

    def fail_over(self) -> None:
        """Elect one of those that have all."""
        self.members.advance(1000)
        whole = [node for node in (1, 2, 3) if node == self.leader or self.is_whole(node)]
        self.leader = self.rng.choice(whole)
        elect(self.members, self.leader)

    def is_whole(self, node: int) -> bool:
        if self.is_full[node]:
            return False
        partition = self.members.partition(node)
        try:
            return partition.log_end_offset == self.count
        except LogRecovering:
            return False

    def fill_a_disk(self) -> None:
        """Let a follower's disk refuse some writes, or all; or make room there again."""
        node = self.rng.choice([node for node in (1, 2, 3) if node != self.leader])
        self.disks[node].mend()
        self.is_full[node] = not self.is_full[node]
        if self.is_full[node]:
            probability = self.rng.choice([0.1, 0.5, 1.0])
            for kind in ("append", "create"):
                self.disks[node].fail(kind, lambda path: self.rng.random() < probability, number=errno.ENOSPC)

    def delete_records(self) -> None:
        self.members.advance(1000)
        broker = self.members[self.leader].broker
        if not self.count:
            return
        offset = self.rng.randrange(self.begin, broker.topics.partition("t", 0).high_watermark + 1)
        promise = broker.upkeep.deletion.delete_before(broker.topics.get("t"), 0, offset)
        self.begin = max(self.begin, self.members.result(promise))

    def lose_a_disk(self) -> None:
        node = self.rng.choice([node for node in (1, 2, 3) if node != self.leader])
        self.restart(node, keeps_disk=self.rng.random() < 0.5)

    def restart(self, node: int, *, keeps_disk: bool) -> None:
        members = self.members
        stop(members, node)
        members.settle()  # what was sent to it fails
        if not keeps_disk:
            self.disks[node] = members._storages[node] = FaultyStorage(clock=members.clock)
        self.disks[node].mend()
        self.is_full[node] = False
        members.start(node)
        members.join(node)
        for peers in members.peers.values():
            peers.down.clear()
        members.settle()

    def disturb_the_store(self) -> None:
        self.store.mend()
        if self.rng.random() < 0.7:
            self.store.fail(unavailable("*"), probability=self.rng.choice([0.05, 0.3, 1.0]))
            self.store.fail(lost_answer("put*"), probability=0.2)

    def end(self) -> None:
        self.store.mend()
        for disk in self.disks.values():
            disk.mend()
        for _ in range(4):
            self.members.advance(ROUND_MS)


@pytest.mark.parametrize("seed", corners(list(range(24)), 2))
def test_each_committed_record_is_read_once_at_each_replica(faulty: FaultyTierStore, seed: int) -> None:
    run = Run(faulty, seed)
    for _ in range(STEPS):
        step = run.rng.choice(
            [
                run.produce,
                run.produce,
                run.produce,
                run.wait,
                run.fail_over,
                run.lose_a_disk,
                run.fill_a_disk,
                run.disturb_the_store,
                run.delete_records,
            ]
        )
        step()
    run.end()
    members = run.members
    assert members.partition(run.leader).log_end_offset == run.count
    for node in (1, 2, 3):
        assert read_all(members, node, run.begin) == expected(run.count)[run.begin :], f"seed {seed}, broker {node}"
    logs = [members.partition(node).log for node in (1, 2, 3)]
    assert {log.start_offset for log in logs} == {run.begin}
    epochs = {tuple(log.epochs.entries()) for log in logs}
    assert len(epochs) == 1 or run.begin == run.count, "an empty log needs no epochs"
