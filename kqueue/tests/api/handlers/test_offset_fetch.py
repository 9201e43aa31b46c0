from __future__ import annotations

from typing import Any

import pytest

from kqueue.api.handlers import offset_fetch
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.tests.api.group_client import commit, commit_request, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
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
    asker: SimulatedClient, version: int, wanted: PartitionFetch | None, group_id: str = "g", **fields: Any
) -> OffsetFetchRequest:
    if version < 8:
        old = (
            None
            if wanted is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in wanted.items()]
        )
        return OffsetFetchRequest(group_id=group_id, topics=old, **fields)
    return OffsetFetchRequest(groups=[group_of(asker, version, wanted, group_id)], **fields)


def group_of(
    asker: SimulatedClient, version: int, wanted: PartitionFetch | None, group_id: str = "g"
) -> OffsetFetchRequestGroup:
    if wanted is None:
        return OffsetFetchRequestGroup(group_id=group_id, topics=None)
    topics = []
    for name, partitions in wanted.items():
        found = asker.sim.broker.topics.find(name)
        named = {"topic_id": found.id if found else b"\x07" * 16} if version >= 10 else {"name": name}
        topics.append(OffsetFetchRequestTopics(partition_indexes=partitions, **named))
    return OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def answers(asker: SimulatedClient, topics: Any) -> dict[tuple[str, int], Answer]:
    """Topic and partition -> offset, leader epoch, metadata, code."""
    names = {topic.id: topic.name for topic in asker.sim.broker.topics}
    return {
        (getattr(topic, "name", "") or names.get(topic.topic_id, "?"), one.partition_index): (
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata,
            one.error_code,
        )
        for topic in topics
        for one in topic.partitions
    }


def fetch(
    asker: SimulatedClient, version: int, wanted: PartitionFetch | None, group_id: str = "g", **fields: Any
) -> dict[tuple[str, int], Answer]:
    response = asker.ask(request(asker, version, wanted, group_id, **fields), version)
    if version < 8:
        assert response.error_code == ErrorCode.NONE
        return answers(asker, response.topics)
    [group] = response.groups
    assert (group.group_id, group.error_code) == (group_id, ErrorCode.NONE)
    return answers(asker, group.topics)


def committed() -> SimulatedClient:
    asker = world()
    asker.sim.topic("u")
    commits = commit_request(asker, 9, {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}, "note")
    commits.topics[0].partitions[0].committed_leader_epoch = 3
    asker.ask(commits, 9)
    return asker


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_committed_comes_back(version: int) -> None:
    asker = committed()
    epoch = 3 if version >= 5 else -1
    assert fetch(asker, version, {"t": [1, 0]}) == {("t", 1): (6, -1, "note", 0), ("t", 0): (5, epoch, "note", 0)}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 2])
def test_no_topics_named_are_all_topics(version: int) -> None:
    asker = committed()
    epoch = 3 if version >= 5 else -1
    everything = {("t", 0): (5, epoch, "note", 0), ("t", 1): (6, -1, "note", 0), ("u", 0): (7, -1, "note", 0)}
    assert fetch(asker, version, None) == everything
    assert fetch(asker, version, {}) == {}
    assert fetch(asker, version, None, "nobody") == {}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 1])
def test_what_was_never_committed_is_no_error(version: int) -> None:
    asker = committed()
    assert fetch(asker, version, {"t": [0, 9], "u": [1]})["t", 9] == NONE
    assert fetch(asker, version, {"t": [0]}, "nobody") == {("t", 0): NONE}
    assert fetch(asker, version, {"t": [0]}, "") == {("t", 0): NONE}
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
    assert list(fetch(asker, version, {"nobody": [4]}).values()) == [(-1, -1, "", unknown)]


def test_version_0_calls_what_was_never_committed_unknown() -> None:
    asker = committed()
    unknown = (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert fetch(asker, 0, {"t": [0, 9]}) == {("t", 0): (5, -1, "note", 0), ("t", 9): unknown}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_several_groups_at_once(version: int) -> None:
    asker = committed()
    commit(asker, {("u", 0): 9}, group_id="h")
    asked = OffsetFetchRequest(
        groups=[
            group_of(asker, version, None, "h"),
            group_of(asker, version, {"t": [1]}),
            group_of(asker, version, None, "nobody"),
        ]
    )
    response = asker.ask(asked, version)
    assert [(group.group_id, answers(asker, group.topics)) for group in response.groups] == [
        ("h", {("u", 0): (9, -1, "", 0)}),
        ("g", {("t", 1): (6, -1, "note", 0)}),
        ("nobody", {}),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_of_a_deleted_topic_are_not_its_namesakes(version: int) -> None:
    asker = committed()
    old = asker.sim.broker.groups.offsets("g")["t"][0]
    asker.sim.result(asker.sim.broker.topics.delete("t"))
    asker.sim.settle()
    asker.sim.topic("t", 2)
    asker.sim.broker.groups._offsets.store.put(
        "g", "t", 0, old
    )  # as if the broker had died before it could take it back
    found = fetch(asker, version, {"t": [0]})
    assert found["t", 0][0] == -1
    if version >= 2:
        assert fetch(asker, version, None) == {("u", 0): (7, -1, "note", 0)}


def test_by_id_all_topics_are_those_that_are_there() -> None:
    asker = committed()
    offsets = asker.sim.broker.groups._offsets.store
    offsets.put("g", "gone", 0, asker.sim.broker.groups.offsets("g")["t"][0])
    assert ("gone", 0) in fetch(asker, 9, None)
    assert set(fetch(asker, 10, None)) == {("t", 0), ("t", 1), ("u", 0)}


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 7])
def test_stable_offsets_are_all_offsets_without_transactions(version: int) -> None:
    asker = committed()
    assert fetch(asker, version, {"t": [1]}, require_stable=True) == {("t", 1): (6, -1, "note", 0)}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_is_told_where_the_version_has_a_place_for_it(version: int) -> None:
    asked = request(world(), version, {"t": [0, 1]})
    response = offset_fetch.error_response(asked, version, CoordinatorNotAvailable("later"))
    later = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version >= 8:
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", later)]
    elif version >= 2:
        assert (response.error_code, response.topics) == (later, [])
    else:
        assert [(one.partition_index, one.error_code) for topic in response.topics for one in topic.partitions] == [
            (0, later),
            (1, later),
        ]
