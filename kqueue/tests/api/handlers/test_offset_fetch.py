from __future__ import annotations

from typing import Any

from kqueue.api.handlers import offset_fetch
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.groups.log.group_log import TransactionalProducer
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.api.group_client import commit, commit_request, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

VERSIONS = versions_of("offset_fetch")
PartitionFetch = dict[str, list[int]]
Answer = tuple[int, int, str | None, int]
NONE: Answer = (-1, -1, "", 0)


def request(
    client: SimulatedClient, version: int, requested: PartitionFetch | None, group_id: str = "g", **fields: Any
) -> OffsetFetchRequest:
    if version < 8:
        old = (
            None
            if requested is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in requested.items()]
        )
        return OffsetFetchRequest(group_id=group_id, topics=old, **fields)
    return OffsetFetchRequest(groups=[group_of(client, version, requested, group_id)], **fields)


def group_of(
    client: SimulatedClient, version: int, requested: PartitionFetch | None, group_id: str = "g"
) -> OffsetFetchRequestGroup:
    if requested is None:
        return OffsetFetchRequestGroup(group_id=group_id, topics=None)
    topics = []
    for name, partitions in requested.items():
        topic = client.sim.broker.topics.find(name)
        named = {"topic_id": topic.id if topic else b"\x07" * 16} if version >= 10 else {"name": name}
        topics.append(OffsetFetchRequestTopics(partition_indexes=partitions, **named))
    return OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def committed_offsets(client: SimulatedClient, topics: Any) -> dict[tuple[str, int], Answer]:
    """Topic and partition -> offset, leader epoch, metadata, code."""
    names = {topic.id: topic.name for topic in client.sim.broker.topics}
    return {
        (getattr(topic, "name", "") or names.get(topic.topic_id, "?"), partition.partition_index): (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
            partition.error_code,
        )
        for topic in topics
        for partition in topic.partitions
    }


def fetch(
    client: SimulatedClient, version: int, requested: PartitionFetch | None, group_id: str = "g", **fields: Any
) -> dict[tuple[str, int], Answer]:
    response = client.ask(request(client, version, requested, group_id, **fields), version)
    if version < 8:
        assert response.error_code == ErrorCode.NONE
        return committed_offsets(client, response.topics)
    [group] = response.groups
    assert (group.group_id, group.error_code) == (group_id, ErrorCode.NONE)
    return committed_offsets(client, group.topics)


def committed() -> SimulatedClient:
    client = world()
    client.sim.topic("u")
    commits = commit_request(client, 9, {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}, "note")
    commits.topics[0].partitions[0].committed_leader_epoch = 3
    client.ask(commits, 9)
    return client


@for_each("version", VERSIONS)
def test_what_was_committed_comes_back(version: int) -> None:
    client = committed()
    epoch = 3 if version >= 5 else -1
    assert fetch(client, version, {"t": [1, 0]}) == {("t", 1): (6, -1, "note", 0), ("t", 0): (5, epoch, "note", 0)}


@for_each("version", [version for version in VERSIONS if version >= 2])
def test_no_topics_named_are_all_topics(version: int) -> None:
    client = committed()
    epoch = 3 if version >= 5 else -1
    everything = {("t", 0): (5, epoch, "note", 0), ("t", 1): (6, -1, "note", 0), ("u", 0): (7, -1, "note", 0)}
    assert fetch(client, version, None) == everything
    assert fetch(client, version, {}) == {}
    assert fetch(client, version, None, "nobody") == {}


@for_each("version", [version for version in VERSIONS if version >= 1])
def test_what_was_never_committed_is_no_error(version: int) -> None:
    client = committed()
    assert fetch(client, version, {"t": [0, 9], "u": [1]})["t", 9] == NONE
    assert fetch(client, version, {"t": [0]}, "nobody") == {("t", 0): NONE}
    assert fetch(client, version, {"t": [0]}, "") == {("t", 0): NONE}
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
    assert list(fetch(client, version, {"nobody": [4]}).values()) == [(-1, -1, "", unknown)]


def test_version_0_calls_what_was_never_committed_unknown() -> None:
    client = committed()
    unknown = (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert fetch(client, 0, {"t": [0, 9]}) == {("t", 0): (5, -1, "note", 0), ("t", 9): unknown}


@for_each("version", [version for version in VERSIONS if version >= 8])
def test_several_groups_at_once(version: int) -> None:
    client = committed()
    commit(client, {("u", 0): 9}, group_id="h")
    both_groups = OffsetFetchRequest(
        groups=[
            group_of(client, version, None, "h"),
            group_of(client, version, {"t": [1]}),
            group_of(client, version, None, "nobody"),
        ]
    )
    response = client.ask(both_groups, version)
    assert [(group.group_id, committed_offsets(client, group.topics)) for group in response.groups] == [
        ("h", {("u", 0): (9, -1, "", 0)}),
        ("g", {("t", 1): (6, -1, "note", 0)}),
        ("nobody", {}),
    ]


@for_each("version", VERSIONS)
def test_offsets_of_a_deleted_topic_are_not_its_namesakes(version: int) -> None:
    client = committed()
    old = client.sim.broker.coordinators.groups.offsets("g")["t"][0]
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.sim.settle()
    client.sim.topic("t", 2)
    client.sim.broker.coordinators.groups._offsets.store.put(
        "g", "t", 0, old
    )  # as if the broker had died before it could take it back
    offsets = fetch(client, version, {"t": [0]})
    assert offsets["t", 0][0] == -1
    if version >= 2:
        assert fetch(client, version, None) == {("u", 0): (7, -1, "note", 0)}


def test_by_id_all_topics_are_those_that_are_there() -> None:
    client = committed()
    offsets = client.sim.broker.coordinators.groups._offsets.store
    offsets.put("g", "gone", 0, client.sim.broker.coordinators.groups.offsets("g")["t"][0])
    assert ("gone", 0) in fetch(client, 9, None)
    assert set(fetch(client, 10, None)) == {("t", 0), ("t", 1), ("u", 0)}


@for_each("version", [version for version in VERSIONS if version >= 7])
def test_stable_offsets_are_all_offsets_without_transactions(version: int) -> None:
    client = committed()
    assert fetch(client, version, {"t": [1]}, require_stable=True) == {("t", 1): (6, -1, "note", 0)}


@for_each("version", VERSIONS)
def test_an_error_is_reported_where_the_version_has_a_field(version: int) -> None:
    both_groups = request(world(), version, {"t": [0, 1]})
    response = offset_fetch.error_response(both_groups, version, CoordinatorNotAvailable("later"))
    later = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version >= 8:
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", later)]
    elif version >= 2:
        assert (response.error_code, response.topics) == (later, [])
    else:
        assert [
            (partition.partition_index, partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        ] == [
            (0, later),
            (1, later),
        ]


@for_each("version", [version for version in VERSIONS if version >= 7])
def test_an_offset_that_an_open_transaction_may_replace_is_unstable(version: int) -> None:
    client = world()
    commit(client, {("t", 0): 5})
    groups = client.sim.broker.coordinators.groups
    offsets = [OffsetToCommit("t", 0, 7), OffsetToCommit("t", 1, 8)]
    client.sim.result(groups.commit_in_transaction("g", TransactionalProducer(7, 0), -1, "", None, offsets))
    unstable = (-1, -1, "", int(ErrorCode.UNSTABLE_OFFSET_COMMIT))
    stable = (5, -1, "", 0)
    named: PartitionFetch = {"t": [0, 1]}
    for require, zero, one in ((True, unstable, unstable), (False, stable, NONE)):
        assert fetch(client, version, named, require_stable=require) == {("t", 0): zero, ("t", 1): one}
        assert fetch(client, version, None, require_stable=require) == {("t", 0): zero}
        assert fetch(client, version, named, "other", require_stable=require) == {("t", 0): NONE, ("t", 1): NONE}
    groups.complete_transaction(7, groups.partition_of("g"), False)
    assert fetch(client, version, named, require_stable=True) == {("t", 0): stable, ("t", 1): NONE}
