"""Share partitions open from their state, and close with their topic."""

from __future__ import annotations

import pytest

from kqueue.base.errors import KqueueError, PolicyViolation, UnknownTopicOrPartition
from kqueue.groups.share.records import StateTopic
from kqueue.share.share_state import NO_OFFSET, SharePartitionKey
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, Member, acquired, data_of, earliest, fill
from kqueue.wire.error_codes import ErrorCode


def test_settings_of_a_group_count_at_once() -> None:
    client = SimulatedClient()
    share = client.sim.broker.share
    assert share.config_of("g").lock_duration_ms == 30_000
    earliest(client, share_record_lock_duration_ms="20000")
    assert share.config_of("g").lock_duration_ms == 20_000
    assert share.config_of("other").lock_duration_ms == 30_000


def test_too_many_share_partitions() -> None:
    client = SimulatedClient({"kqueue.max.share.partitions": 1})
    topic = client.sim.topic("t", 2)
    share = client.sim.broker.share
    answers: list[KqueueError | None] = []
    share.initialize("g", {topic.id: StateTopic("t", frozenset({0, 1}))}, 0, answers.append)
    client.sim.settle()
    [error] = answers
    assert isinstance(error, PolicyViolation)
    assert "kqueue.max.share.partitions" in str(error)
    share.open("g", topic.id, 0)
    with pytest.raises(KqueueError, match="it gets one by a ShareGroupHeartbeat"):
        share.open("g", topic.id, 1)
    with pytest.raises(UnknownTopicOrPartition):
        share.open("g", topic.id, 2)


def test_a_reset_closes_what_is_open() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("t")
    earliest(client)
    fill(client, 3)
    member = Member(client)
    assert acquired(member.fetch()) == [(0, 2, 1)]
    answers: list[KqueueError | None] = []
    client.sim.broker.share.coordinator.initialize(SharePartitionKey("g", topic.id, 0), 1, 2, answers.append)
    assert data_of(member.acknowledge((0, 0, ACCEPT))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acquired(member.fetch()) == [(2, 2, 1)]
    assert answers == [None]


def test_a_state_beyond_the_end_of_the_log() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("t")
    fill(client, 3)
    key = SharePartitionKey("g", topic.id, 0)
    client.sim.broker.share.coordinator.initialize(key, 0, 70, lambda error: None)
    client.sim.settle()
    member = Member(client)
    assert acquired(member.fetch()) == []
    fill(client, 1)
    assert acquired(member.fetch()) == [(3, 3, 1)]


def test_a_start_is_refused_until_its_state_is_loaded() -> None:
    sim = Simulation()
    client = SimulatedClient(sim=sim)
    sim.topic("t")
    earliest(client)
    fill(client, 2)
    member = Member(client)
    member.fetch()
    assert data_of(member.acknowledge((0, 0, ACCEPT))).error_code == 0
    sim.stop()
    again = Simulation(storage=sim.storage, store=sim.store, clock=sim.clock, recovers=False)
    client = SimulatedClient(sim=again)
    waiting = Member(client).start(max_wait_ms=0)
    client.sim.advance(1000)
    assert acquired(waiting.response) == [(1, 1, 1)]


def test_a_new_group_has_a_state_without_an_offset() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("t")
    Member(client).fetch()
    state = client.sim.broker.share.coordinator.read(SharePartitionKey("g", topic.id, 0))
    assert state is not None
    assert state.start_offset == NO_OFFSET
