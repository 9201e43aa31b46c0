"""Unclean elections of replicas of a tiered topic, one after another and back again: the log of the
last leader decides, and no replica serves a record that it contradicts.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from kqueue.base.errors import KqueueError
from kqueue.broker.replicas.partition import Partition
from kqueue.testing.tier_faults import FaultyTierStore, unavailable
from kqueue.tests.api.fetch_client import one, request, values, want
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import elect
from kqueue.tests.broker.tier.tiered_brokers import tier_of_members
from kqueue.tests.interbroker.test_tiered_replicas import ROUND_MS, STORE_NUMBERS, read_all, tiered_members
from kqueue.tests.thorough import corners
from kqueue.tier.catalog import all_topics
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore

STEPS = 40
NODES = (1, 2, 3)


@pytest.fixture
def faulty() -> Iterator[FaultyTierStore]:
    with tier_of_members(FaultyTierStore(MemoryTierStore(f"elections-{next(STORE_NUMBERS)}"))) as store:
        yield store


class Run:
    """One run.

    Attributes: records: those of the leader's log. history: all that were written, by leader epoch
        and offset. lagging: the follower that reaches no other broker; None: all do.
    """

    def __init__(self, store: FaultyTierStore, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = store
        self.members = tiered_members()
        self.leader = 1
        self.records: list[bytes] = []
        self.history: dict[tuple[int, int], bytes] = {}
        self.lagging: int | None = None

    @property
    def partition(self) -> Partition:
        return self.members.partition(self.leader)

    def produce(self) -> None:
        for _ in range(self.rng.randrange(1, 12)):
            value = b"v%d" % len(self.history)
            append(self.partition, value)
            self.members.settle()
            self.history[self.partition.leader_epoch, len(self.records)] = value
            self.records.append(value)
        self.members.advance(200)

    def wait(self) -> None:
        self.members.advance(self.rng.choice([300, 1000, ROUND_MS]))

    def part(self) -> None:
        """Cut a broker off from the others, or let it reach them again."""
        self.lagging = self.rng.choice(NODES) if self.lagging is None else None
        for node, peers in self.members.peers.items():
            away = set() if self.lagging is None else {self.lagging}
            peers.down = set(NODES) - away if node in away else away

    def commit_alone(self) -> None:
        self.members.write(lambda old: old._replace(isr=(self.leader,)))

    def elect_uncleanly(self) -> None:
        node = self.rng.choice([node for node in NODES if node != self.leader])
        try:
            log = self.members.partition(node).log
        except KqueueError:
            return
        if log.health.failure is not None or log.end_offset == 0:
            return  # an empty log goes on from the tier, and decides nothing
        self.leader = node
        elect(self.members, node, node)
        self.members.settle()
        log = self.partition.log
        self.records = [self.history[log.epochs.epoch_at(offset), offset] for offset in range(log.end_offset)]

    def disturb_the_store(self) -> None:
        self.store.mend()
        if self.rng.random() < 0.5:
            self.store.fail(unavailable("*"), probability=self.rng.choice([0.3, 1.0]))

    def read(self, begin: int | None = None) -> None:
        """Read at the leader, from some offset on: an error, or what its log has."""
        begin = self.rng.randrange(len(self.records) + 1) if begin is None else begin
        client = SimulatedClient(sim=self.members[self.leader])
        started = client.start(request(client, 11, want(offset=begin), max_wait_ms=0), 11)
        self.members.advance(1000)
        found = values(one(started.response))
        assert found == self.records[begin : begin + len(found)]

    def end(self) -> None:
        self.store.mend()
        if self.lagging is not None:
            self.part()
        for _ in range(5):
            self.members.advance(ROUND_MS)

    def give_up_lost_records(self) -> int:
        """Delete the records before the leader's disk, if others are lost; return the log start."""
        broker, partition = self.members[self.leader].broker, self.partition
        assert broker.tier is not None
        state = broker.tier.host.state_of(partition)
        begin = partition.log.local_start_offset
        if state.is_claimed or not begin:
            return 0
        assert "what is between is lost" in state.logged
        for offset in range(begin):
            self.read(offset)
        assert self.members.result(broker.upkeep.deletion.delete_before(broker.topics.get("t"), 0, begin)) == begin
        for _ in range(5):
            self.members.advance(ROUND_MS)
        assert state.is_claimed
        return begin


@pytest.mark.parametrize("seed", corners(list(range(40)), 17))
def test_log_of_the_last_leader_decides_what_the_tier_has(faulty: FaultyTierStore, seed: int) -> None:
    run = Run(faulty, seed)
    steps = [
        run.produce,
        run.produce,
        run.produce,
        run.wait,
        run.wait,
        run.part,
        run.part,
        run.commit_alone,
        run.elect_uncleanly,
        run.elect_uncleanly,
        run.disturb_the_store,
        run.read,
    ]
    for _ in range(STEPS):
        run.rng.choice(steps)()
    run.end()
    begin = run.give_up_lost_records()
    for node in NODES:
        assert read_all(run.members, node, begin) == run.records[begin:], f"seed {seed}, broker {node}"
    for topic in all_topics(faulty, ()):
        segments = list(Manifest.open(faulty, topic.partition(0)).segments())
        assert all(one.end_offset == other.start_offset for one, other in itertools.pairwise(segments))
