from __future__ import annotations

from typing import Any

import pytest

from kqueue.broker.topics.topics import NewTopic
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.fetch_client import fetch, one, request, values, want
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, produce_request, versions_of
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import elect
from kqueue.tests.interbroker.fetching_members import FetchingMembers
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

VERSIONS = list(versions_of("delete_records"))


def deletion_request(*offsets: int, topic: str = "t", timeout_ms: int = 1000) -> DeleteRecordsRequest:
    """Partition 0 to the first offset, 1 to the second, and so on."""
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in enumerate(offsets)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=timeout_ms)


def codes_and_starts(response: DeleteRecordsResponse) -> list[tuple[int, int]]:
    return [
        (partition.error_code, partition.low_watermark) for topic in response.topics for partition in topic.partitions
    ]


def delete(client: SimulatedClient, version: int, *offsets: int, **fields: Any) -> list[tuple[int, int]]:
    return codes_and_starts(client.ask(deletion_request(*offsets, **fields), version))


def waits(started: PendingRequest) -> bool:
    return started.response is None


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 2)
    for value in (b"a", b"b", b"c"):
        client.produce("t", batch(value, value))
    return client


@pytest.mark.parametrize("version", VERSIONS)
def test_records_before_an_offset_go(client: SimulatedClient, version: int) -> None:
    """S5.1: DeleteRecords moves the log start; what lies below is out of range, what lies above is
    there.
    """
    assert delete(client, version, 3) == [(0, 3)]
    assert one(fetch(client, 11, want(offset=2))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = one(fetch(client, 11, want(offset=3)))
    assert (data.error_code, data.log_start_offset) == (0, 3)
    assert values(data)[-3:] == [b"b", b"c", b"c"]


@pytest.mark.parametrize("version", VERSIONS)
def test_minus_one_means_all_that_consumers_see(client: SimulatedClient, version: int) -> None:
    assert delete(client, version, -1, -1) == [(0, 6), (0, 0)]
    client.produce("t", batch(b"new"))
    assert values(one(fetch(client, 11, want(offset=6)))) == [b"new"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_start_never_goes_back(client: SimulatedClient, version: int) -> None:
    assert delete(client, version, 4) == [(0, 4)]
    assert delete(client, version, 2) == [(0, 4)]
    assert client.sim.broker.topics.partition("t", 0).log_start_offset == 4


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [7, -2, 2**63 - 1, -(2**63)])
def test_offsets_outside_the_log_are_out_of_range(client: SimulatedClient, version: int, offset: int) -> None:
    assert delete(client, version, offset, 0) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1), (0, 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_is_answered_for_itself(client: SimulatedClient, version: int) -> None:
    client.sim.topic("compacted", cleanup_policy="compact")
    client.sim.topic("both", cleanup_policy="compact,delete")
    client.produce("both", batch(b"x"))
    assert delete(client, version, 1, 0, 0) == [(0, 1), (0, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert delete(client, version, 0, topic="nobody") == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert delete(client, version, 0, topic="compacted") == [(ErrorCode.POLICY_VIOLATION, -1)]
    assert delete(client, version, 1, topic="both") == [(0, 1)]


def test_the_brokers_own_topics_are_left_alone(client: SimulatedClient) -> None:
    client.sim.result(client.sim.broker.topics.create_on_demand("__consumer_offsets"))
    assert delete(client, 2, 0, topic="__consumer_offsets") == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]


def test_the_new_start_is_invisible_until_it_is_on_disk(client: SimulatedClient) -> None:
    started = client.start(deletion_request(4), 2)
    partition = client.sim.broker.topics.partition("t", 0)
    assert waits(started)
    assert partition.log_start_offset == 0
    client.sim.settle()
    assert codes_and_starts(started.response) == [(0, 4)]
    assert partition.log_start_offset == 4


def test_a_slow_disk_is_reported_as_a_timeout(client: SimulatedClient) -> None:
    started = client.start(deletion_request(4, timeout_ms=1500), 2)
    client.sim.clock.advance(1500)
    client.sim.broker.scheduler.timers.run_due(client.sim.clock.monotonic_ms())
    assert codes_and_starts(started.response) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_a_partition_that_is_deleted_meanwhile(client: SimulatedClient) -> None:
    started = client.start(deletion_request(4), 2)
    deletion = client.sim.broker.topics.delete("t")
    client.sim.settle()
    assert deletion.done
    assert codes_and_starts(started.response)[0][0] in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_fetch_waiting_below_the_new_start_gets_out_of_range(client: SimulatedClient) -> None:
    waiting = client.start(request(client, 11, want(offset=5), max_wait_ms=10_000, min_bytes=1 << 20), 11)
    client.sim.settle()
    assert waits(waiting)
    delete(client, 2, 6)
    assert one(waiting.response).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_wholly_below_the_new_start_are_removed() -> None:
    """S5.1: the files of what is gone follow, after file.delete.delay.ms."""
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", segment_bytes="200", file_delete_delay_ms="1000")
    for number in range(6):
        client.produce("t", batch(b"x" * 100, time_ms=1_700_000_000_000 + number))

    def names() -> list[str]:
        return [entry.name for entry in client.sim.storage.list("t-0") if ".log" in entry.name]

    before = names()
    assert len(before) == 6
    assert delete(client, 2, 4) == [(0, 4)]
    assert [name for name in names() if name.endswith(".log")] == before[4:]
    client.sim.advance(1001)
    assert names() == before[4:]
    assert values(one(fetch(client, 11, want(offset=4)))) == [b"x" * 100]


def test_read_committed_readers_are_not_left_below_the_log_start() -> None:
    """S4.2: the last stable offset is no lower than the log start, also where an open transaction
    begins before it.
    """
    from kqueue.tests.api.fetch_client import append, transaction
    from kqueue.tests.api.handlers.test_list_offsets import LATEST
    from kqueue.tests.api.handlers.test_list_offsets import partition_response as listed

    client = SimulatedClient()
    client.sim.topic("t")
    append(client, transaction(b"open", 1))
    append(client, batch(b"plain"))
    assert listed(client, 8, LATEST, isolation=1).offset == 0
    assert delete(client, 2, 2) == [(0, 2)]
    assert listed(client, 8, LATEST, isolation=1).offset == 2
    data = one(fetch(client, 11, want(offset=2), isolation_level=1))
    assert (data.error_code, data.last_stable_offset, data.log_start_offset) == (0, 2, 2)


@pytest.mark.parametrize("offset", [-1, 7])
def test_records_that_are_appended_and_not_flushed_are_deleted_too(client: SimulatedClient, offset: int) -> None:
    """The log start moves once they are flushed, and never passes the high watermark."""
    partition = client.sim.broker.topics.partition("t", 0)
    client.start(produce_request(client, "t", batch(b"d"), acks=1), 9)
    started = client.start(deletion_request(offset), 2)
    assert waits(started)
    while waits(started):
        assert partition.log_start_offset <= partition.high_watermark
        assert client.sim.jobs.step() or client.sim.broker.scheduler.purgatory.run_ready()
    assert codes_and_starts(started.response) == [(0, 7)]
    assert partition.high_watermark == 7


def test_an_offset_above_the_log_end_is_out_of_range(client: SimulatedClient) -> None:
    client.start(produce_request(client, "t", batch(b"d"), acks=1), 9)
    assert delete(client, 2, 8) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_records_that_followers_lack_are_not_deleted() -> None:
    members = Members(2)
    for topic, replicas in (("t", [1, 2]), ("single", [1])):
        members.result(members[1].broker.topics.create(NewTopic(topic, assignments={0: replicas})))
    client = MembersClient(members, 1)
    for topic in ("t", "single"):
        assert client.produce(topic, batch(b"a", b"b"), acks=1).error_code == ErrorCode.NONE
    outcomes = [
        codes_and_starts(client.ask(deletion_request(offset, topic=topic), 2))
        for topic, offset in (("t", 1), ("t", -1), ("single", -1))
    ]
    assert outcomes == [[(ErrorCode.OFFSET_OUT_OF_RANGE, -1)], [(ErrorCode.NONE, 0)], [(ErrorCode.NONE, 2)]]


def replicated() -> FetchingMembers:
    """Brokers 1, 2 and 3; 1 leads a partition with two records that all have."""
    members = FetchingMembers(3)
    members.topic("t", [1, 2, 3])
    append(members.partition(1), b"a", b"b")
    members.advance(1000)
    return members


def test_a_replicated_deletion_waits_until_all_replicas_have_made_it() -> None:
    members = replicated()
    started = members.clients[1].start(deletion_request(2), 2)
    members.settle()
    assert waits(started)
    members.advance(1000)
    assert codes_and_starts(started.response) == [(0, 2)]
    assert [members.partition(node).log_start_offset for node in (1, 2, 3)] == [2, 2, 2]


def test_a_replica_that_does_not_delete_in_time_is_a_timeout_until_its_broker_is_fenced() -> None:
    members = replicated()
    members.peers[3].down.add(1)
    started = members.clients[1].start(deletion_request(2, timeout_ms=5000), 2)
    members.advance(4500)
    assert waits(started)
    members.advance(1000)
    assert codes_and_starts(started.response) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    assert members.partition(1).log_start_offset == 2, "here it is made"

    started = members.clients[1].start(deletion_request(2, timeout_ms=60_000), 2)
    members.advance(1000)
    assert waits(started)
    members.register(3, fenced=True)
    members.settle()
    assert codes_and_starts(started.response) == [(0, 2)]


def test_a_leader_that_is_replaced_while_it_waits_says_so() -> None:
    members = replicated()
    members.peers[3].down.add(1)
    started = members.clients[1].start(deletion_request(2, timeout_ms=60_000), 2)
    members.advance(1000)
    elect(members, 2)
    assert codes_and_starts(started.response) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
