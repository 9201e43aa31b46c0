from __future__ import annotations

import pytest

from kqueue.api.handlers import offset_commit
from kqueue.base.errors import CoordinatorNotAvailable, StorageFailed
from kqueue.broker.topics import OFFSETS_TOPIC
from kqueue.groups.records import partition_of
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
from kqueue.tests.api.harness import NOW_MS, versions_of
from kqueue.wire.error_codes import ErrorCode

VERSIONS = versions_of("offset_commit")
DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("version", VERSIONS)
def test_anyone_commits_to_a_group_without_members(version: int) -> None:
    """S4.5: by hand."""
    asker = world()
    assert commit(asker, {("t", 0): 5, ("t", 1): 2**62}, version) == {(0, 0): 0, (0, 1): 0}
    assert committed(asker) == {("t", 0): 5, ("t", 1): 2**62}
    [one] = [asker.sim.broker.groups.offsets("g")["t"][0]]
    assert (one.committed_ms, one.expires_ms, one.topic_id) == (NOW_MS, None, asker.sim.broker.topics.get("t").id)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_there_is_refused_alone(version: int) -> None:
    asker = world()
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = {("t", 2): 1, ("t", 0): 5, ("nobody", 0): 1, ("t", -1): 1}
    assert commit(asker, asked, version) == {(0, 2): nowhere, (0, 0): 0, (0, -1): nowhere, (1, 0): unknown}
    assert committed(asker) == {("t", 0): 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_names_and_ids_come_back_as_they_were(version: int) -> None:
    asker = world()
    request = commit_request(asker, version, {("t", 0): 5, ("nobody", 0): 1})
    response = asker.ask(request, version)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [
        (topic.name, topic.topic_id) for topic in request.topics
    ]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 1])
def test_members_commit_in_their_generation(version: int) -> None:
    asker = world()
    joined = stable(asker)
    fields = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    assert commit(asker, {("t", 0): 5}, version, **fields) == {(0, 0): 0}
    assert commit(asker, {("t", 0): 6}, version, **{**fields, "generation_id_or_member_epoch": 7}) == {
        (0, 0): ErrorCode.ILLEGAL_GENERATION
    }
    assert commit(asker, {("t", 0): 6}, version, **{**fields, "member_id": "x"}) == {
        (0, 0): ErrorCode.UNKNOWN_MEMBER_ID
    }
    assert commit(asker, {("t", 0): 6}, version) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert committed(asker) == {("t", 0): 5}


def test_version_0_has_no_members() -> None:
    asker = world()
    stable(asker)
    assert commit(asker, {("t", 0): 5}, 0) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 1])
def test_a_generation_of_no_group_is_told_in_the_versions_own_way(version: int) -> None:
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert commit(world(), {("t", 0): 5}, version, generation_id_or_member_epoch=1, member_id="m") == {(0, 0): expected}


def test_no_commit_succeeds_during_a_rebalance() -> None:
    asker = world()
    joined = join(asker)
    fields = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert commit(asker, {("t", 0): 5}, **fields) == {(0, 0): ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_fenced_instance_commits_nothing() -> None:
    asker = world()
    first = join(asker, group_instance_id="i")
    sync(asker, first, group_instance_id="i")
    start_join(asker, group_instance_id="i")
    fields = {"generation_id_or_member_epoch": 1, "member_id": first.member_id, "group_instance_id": "i"}
    assert commit(asker, {("t", 0): 5}, **fields) == {(0, 0): ErrorCode.FENCED_INSTANCE_ID}


@pytest.mark.parametrize("version", [1])
def test_version_1_may_say_when_it_committed(version: int) -> None:
    asker = world()
    request = commit_request(asker, version, {("t", 0): 5, ("t", 1): 6})
    request.topics[0].partitions[0].commit_timestamp = 1234
    asker.ask(request, version)
    found = asker.sim.broker.groups.offsets("g")["t"]
    assert (found[0].committed_ms, found[1].committed_ms) == (1234, NOW_MS)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_2_to_4_may_say_how_long_it_counts(version: int) -> None:
    asker = world()
    commit(asker, {("t", 0): 5}, version, retention_time_ms=DAY_MS)
    commit(asker, {("t", 1): 6}, version)
    asker.sim.advance(DAY_MS + 600_000)
    assert committed(asker) == {("t", 1): 6}


@pytest.mark.parametrize("version", [6, 10])
def test_the_leader_epoch_is_kept(version: int) -> None:
    asker = world()
    request = commit_request(asker, version, {("t", 0): 5})
    request.topics[0].partitions[0].committed_leader_epoch = 9
    asker.ask(request, version)
    assert asker.sim.broker.groups.offsets("g")["t"][0].leader_epoch == 9


def test_metadata_has_a_limit() -> None:
    asker = world(offset_metadata_max_bytes=3)
    assert commit(asker, {("t", 0): 5}, metadata="1234") == {(0, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(asker, {("t", 0): 5}, metadata="123") == {(0, 0): 0}
    assert commit(asker, {("t", 1): 5}, metadata=None) == {(0, 1): 0}
    assert [one.metadata for one in asker.sim.broker.groups.offsets("g")["t"].values()] == ["123", ""]


def test_nothing_to_commit_is_no_error() -> None:
    asker = world()
    assert commit(asker, {}) == {}
    assert asker.sim.broker.topics.find(OFFSETS_TOPIC) is None


def test_the_answer_comes_when_it_is_on_disk() -> None:
    asker = world(kqueue_storage="local")
    started = asker.start(commit_request(asker, 9, {("t", 0): 5}), 9)
    assert started.response is None
    assert committed(asker) == {}
    asker.sim.settle()
    assert codes(started.response) == {(0, 0): 0}
    asker.sim.stop()
    asker.sim = asker.sim.restarted()
    assert committed(asker) == {("t", 0): 5}


def test_what_is_not_on_disk_in_time_is_told() -> None:
    asker = world(kqueue_storage="local")
    started = asker.start(commit_request(asker, 9, {("t", 0): 5}), 9)
    asker.sim.clock.advance(5_000)
    asker.sim.broker.timers.run_due(5_000)
    assert codes(started.response) == {(0, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_disk_that_failed_is_told_and_nothing_is_changed() -> None:
    asker = world()
    commit(asker, {("t", 0): 5})
    partition = asker.sim.broker.topics.partition(OFFSETS_TOPIC, partition_of("g", 50))
    partition.log._fail(StorageFailed("the disk is gone"))
    assert commit(asker, {("t", 0): 6}) == {(0, 0): ErrorCode.NOT_COORDINATOR}
    assert committed(asker) == {("t", 0): 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_is_told_for_every_partition(version: int) -> None:
    request = commit_request(world(), version, {("t", 0): 5, ("t", 1): 6, ("nobody", 2): 1})
    later = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = offset_commit.error_response(request, version, CoordinatorNotAvailable("later"))
    assert codes(response) == {(0, 0): later, (0, 1): later, (1, 2): later}
