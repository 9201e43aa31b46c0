"""The answers to clients while logs are recovered and groups loaded after a crash."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.base.errors import CoordinatorLoadInProgress
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import one, parts, request, values, want
from kqueue.tests.api.group_client import codes, commit_request, join_request
from kqueue.tests.api.harness import SimulatedClient, batch, produce_request
from kqueue.tests.broker.test_broker import kill
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.list_groups import ListGroupsRequest
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
SETTINGS = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}


def crashed() -> SimulatedClient:
    """A client of a broker that recovers ``t`` and the groups; ``g`` has committed offset 1."""
    before = SimulatedClient(sim=Simulation(SETTINGS))
    before.sim.topic("t")
    before.produce("t", batch(b"a", b"b"))
    assert codes(before.ask(commit_request(before, 9, {("t", 0): 1}), 9)) == {(0, 0): 0}
    kill(before.sim)
    return SimulatedClient(
        sim=Simulation(
            SETTINGS, storage=before.sim.storage, store=before.sim.store, clock=before.sim.clock, recovers=False
        )
    )


def now(client: SimulatedClient, request: Any, version: int) -> Any:
    """The response without a turn of the loop."""
    return client.start(request, version).response


def test_metadata_names_no_leader_until_the_log_is_recovered() -> None:
    client = crashed()
    for topics in (None, [MetadataRequestTopic(name="t")]):
        response = now(client, MetadataRequest(topics=topics), 9)
        (partition,) = next(topic for topic in response.topics if topic.name == "t").partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    client.sim.settle()
    (topic,) = now(client, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9).topics
    assert [(each.error_code, each.leader_id) for each in topic.partitions] == [(0, 1)]


def test_requests_for_the_partition_are_refused_with_an_error_that_clients_retry() -> None:
    client = crashed()
    produced = now(client, produce_request(client, "t", batch(b"c")), 9)
    assert produced.responses[0].partition_responses[0].error_code == NOT_LEADER
    fetched = now(client, request(client, 12, want(offset=0), max_wait_ms=500), 12)
    assert one(fetched).error_code == NOT_LEADER
    offsets = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
    )
    assert now(client, offsets, 5).topics[0].partitions[0].error_code == NOT_LEADER
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    epochs = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    assert now(client, epochs, 4).topics[0].partitions[0].error_code == NOT_LEADER
    deleted = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])],
        timeout_ms=1000,
    )
    assert now(client, deleted, 2).topics[0].partitions[0].error_code == NOT_LEADER
    client.sim.settle()
    assert client.produce("t", batch(b"c")).base_offset == 2
    (data,) = parts(client.ask(request(client, 12, want(offset=0)), 12))
    assert values(data) == [b"a", b"b", b"c"]


def test_a_fetch_gets_what_is_ready_and_does_not_wait_for_the_rest() -> None:
    client = crashed()
    client.sim.jobs.pending.clear()  # recovery does not go on
    client.sim.topic("new")
    client.produce("new", batch(b"x"))
    both = request(client, 12, want(offset=0), max_wait_ms=5000)
    both.topics += request(client, 12, want(offset=0), topic="new").topics
    recovering, ready = parts(now(client, both, 12))
    assert recovering.error_code == NOT_LEADER
    assert values(ready) == [b"x"]


def test_groups_answer_that_they_are_loading_until_they_are_loaded() -> None:
    client = crashed()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator = now(client, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert coordinator.coordinators[0].error_code == 0, "clients learn from the coordinator that it loads"
    assert now(client, join_request(9), 9).error_code == loading
    assert codes(now(client, commit_request(client, 9, {("t", 0): 2}), 9)) == {(0, 0): loading}
    served = handler_table.load("list_groups")
    with pytest.raises(CoordinatorLoadInProgress) as caught:  # the dispatcher answers it
        now(client, ListGroupsRequest(), 5)
    assert served.error_response(ListGroupsRequest(), 5, caught.value).error_code == loading
    client.sim.settle()
    assert client.sim.broker.ready.done
    assert client.sim.broker.coordinators.groups.offsets("g")["t"][0].offset == 1
    assert codes(client.ask(commit_request(client, 9, {("t", 0): 2}), 9)) == {(0, 0): 0}
