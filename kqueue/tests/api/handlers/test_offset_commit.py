from __future__ import annotations

from kqueue.api.handlers import offset_commit
from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import CoordinatorNotAvailable, StorageFailed
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.tests.api.group_client import (
    codes,
    commit,
    commit_request,
    committed,
    join,
    stable,
    start_join,
    sync,
    world,
)
from kqueue.tests.api.handlers import test_consumer_group_heartbeat as heartbeat
from kqueue.tests.api.harness import NOW_MS, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

VERSIONS = versions_of("offset_commit")
HOUR_MS = 3_600_000


@for_each("version", VERSIONS)
def test_anyone_commits_to_a_group_without_members(version: int) -> None:
    """S4.5: by hand."""
    client = world()
    assert commit(client, {("t", 0): 5, ("t", 1): 2**62}, version) == {(0, 0): 0, (0, 1): 0}
    assert committed(client) == {("t", 0): 5, ("t", 1): 2**62}
    [one] = [client.sim.broker.coordinators.groups.offsets("g")["t"][0]]
    assert (one.committed_ms, one.expires_ms, one.topic_id) == (NOW_MS, None, client.sim.broker.topics.get("t").id)


@for_each("version", VERSIONS)
def test_unknown_entries_are_refused_individually(version: int) -> None:
    client = world()
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    requested = {("t", 2): 1, ("t", 0): 5, ("nobody", 0): 1, ("t", -1): 1}
    assert commit(client, requested, version) == {(0, 2): nowhere, (0, 0): 0, (0, -1): nowhere, (1, 0): unknown}
    assert committed(client) == {("t", 0): 5}


@for_each("version", VERSIONS)
def test_names_and_ids_come_back_as_they_were(version: int) -> None:
    client = world()
    request = commit_request(client, version, {("t", 0): 5, ("nobody", 0): 1})
    response = client.ask(request, version)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [
        (topic.name, topic.topic_id) for topic in request.topics
    ]


@for_each("version", [version for version in VERSIONS if version >= 1])
def test_members_commit_in_their_generation(version: int) -> None:
    client = world()
    joined = stable(client)
    fields = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    assert commit(client, {("t", 0): 5}, version, **fields) == {(0, 0): 0}
    assert commit(client, {("t", 0): 6}, version, **{**fields, "generation_id_or_member_epoch": 7}) == {
        (0, 0): ErrorCode.ILLEGAL_GENERATION
    }
    assert commit(client, {("t", 0): 6}, version, **{**fields, "member_id": "x"}) == {
        (0, 0): ErrorCode.UNKNOWN_MEMBER_ID
    }
    assert commit(client, {("t", 0): 6}, version) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert committed(client) == {("t", 0): 5}


@for_each("version", [version for version in VERSIONS if version >= 1])
def test_members_of_the_new_protocol_commit_from_version_9_on(version: int) -> None:
    client = world()
    assert heartbeat.join(client).member_epoch == 2
    fields = {"generation_id_or_member_epoch": 2, "member_id": "m"}
    code = ErrorCode.UNSUPPORTED_VERSION if version < 9 else 0
    assert commit(client, {("t", 0): 5}, version, **fields) == {(0, 0): code}
    fields["member_id"] = "x"
    assert commit(client, {("t", 0): 6}, version, **fields) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert committed(client) == ({} if version < 9 else {("t", 0): 5})


def test_version_0_has_no_members() -> None:
    client = world()
    stable(client)
    assert commit(client, {("t", 0): 5}, 0) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}


@for_each("version", [version for version in VERSIONS if version >= 1])
def test_a_generation_of_an_unknown_group_gets_the_error_of_the_version(version: int) -> None:
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert commit(world(), {("t", 0): 5}, version, generation_id_or_member_epoch=1, member_id="m") == {(0, 0): expected}


def test_no_commit_succeeds_during_a_rebalance() -> None:
    client = world()
    joined = join(client)
    fields = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert commit(client, {("t", 0): 5}, **fields) == {(0, 0): ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_fenced_instance_commits_nothing() -> None:
    client = world()
    first = join(client, group_instance_id="i")
    sync(client, first, group_instance_id="i")
    start_join(client, group_instance_id="i")
    fields = {"generation_id_or_member_epoch": 1, "member_id": first.member_id, "group_instance_id": "i"}
    assert commit(client, {("t", 0): 5}, **fields) == {(0, 0): ErrorCode.FENCED_INSTANCE_ID}


@for_each("version", [1])
def test_version_1_may_say_when_it_committed(version: int) -> None:
    client = world()
    request = commit_request(client, version, {("t", 0): 5, ("t", 1): 6})
    request.topics[0].partitions[0].commit_timestamp = 1234
    client.ask(request, version)
    offsets = client.sim.broker.coordinators.groups.offsets("g")["t"]
    assert (offsets[0].committed_ms, offsets[1].committed_ms) == (1234, NOW_MS)


@for_each("version", [2, 3, 4])
def test_versions_2_to_4_may_say_how_long_it_counts(version: int) -> None:
    client = world()
    commit(client, {("t", 0): 5}, version, retention_time_ms=HOUR_MS)
    commit(client, {("t", 1): 6}, version)
    client.sim.advance(HOUR_MS + 600_000)
    assert committed(client) == {("t", 1): 6}


@for_each("version", [6, 10])
def test_the_leader_epoch_is_kept(version: int) -> None:
    client = world()
    request = commit_request(client, version, {("t", 0): 5})
    request.topics[0].partitions[0].committed_leader_epoch = 9
    client.ask(request, version)
    assert client.sim.broker.coordinators.groups.offsets("g")["t"][0].leader_epoch == 9


def test_metadata_has_a_limit() -> None:
    client = world(offset_metadata_max_bytes=3)
    assert commit(client, {("t", 0): 5}, metadata="1234") == {(0, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(client, {("t", 0): 5}, metadata="123") == {(0, 0): 0}
    assert commit(client, {("t", 1): 5}, metadata=None) == {(0, 1): 0}
    assert [one.metadata for one in client.sim.broker.coordinators.groups.offsets("g")["t"].values()] == ["123", ""]


def test_nothing_to_commit_is_no_error() -> None:
    client = world()
    assert commit(client, {}) == {}
    assert client.sim.broker.topics.find(OFFSETS_TOPIC) is None


def test_the_answer_comes_when_it_is_on_disk() -> None:
    client = world(kqueue_storage="local")
    started = client.start(commit_request(client, 9, {("t", 0): 5}), 9)
    assert started.response is None
    assert committed(client) == {}
    client.sim.settle()
    assert codes(started.response) == {(0, 0): 0}
    client.sim.stop()
    client.sim = client.sim.restarted()
    assert committed(client) == {("t", 0): 5}


def test_a_flush_timeout_is_reported() -> None:
    client = world(kqueue_storage="local")
    started = client.start(commit_request(client, 9, {("t", 0): 5}), 9)
    client.sim.clock.advance(5_000)
    client.sim.broker.scheduler.timers.run_due(5_000)
    assert codes(started.response) == {(0, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_disk_failure_is_reported_and_changes_nothing() -> None:
    client = world()
    commit(client, {("t", 0): 5})
    count = len(client.sim.broker.topics.get(OFFSETS_TOPIC).partitions)
    partition = client.sim.broker.topics.partition(OFFSETS_TOPIC, coordinator_partition("g", count))
    partition.log._fail(StorageFailed("the disk is gone"))
    assert commit(client, {("t", 0): 6}) == {(0, 0): ErrorCode.NOT_COORDINATOR}
    assert committed(client) == {("t", 0): 5}


@for_each("version", VERSIONS)
def test_an_error_is_reported_for_every_partition(version: int) -> None:
    request = commit_request(world(), version, {("t", 0): 5, ("t", 1): 6, ("nobody", 2): 1})
    later = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = offset_commit.error_response(request, version, CoordinatorNotAvailable("later"))
    assert codes(response) == {(0, 0): later, (0, 1): later, (1, 2): later}
