from __future__ import annotations

from typing import Any

from kqueue.tests.api.group_client import commit, committed, leave, stable, world
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.leave_group import MemberIdentity
from kqueue.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def request(group_id: str, partitions: dict[str, list[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in numbers]
            )
            for name, numbers in partitions.items()
        ],
    )


def delete(client: SimulatedClient, partitions: dict[str, list[int]], group_id: str = "g") -> Any:
    response = client.ask(request(group_id, partitions), 0)
    if response.error_code:
        return response.error_code
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def test_offsets_of_a_group_without_members_go() -> None:
    client = world()
    client.sim.topic("other", 1)
    commit(client, {("t", 0): 5, ("t", 1): 6})
    codes = delete(client, {"t": [0, 0, 99], "other": [0], "nobody": [0]})
    assert codes == {("t", 0): 0, ("t", 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("other", 0): 0,
                       ("nobody", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # fmt: skip
    assert committed(client, "g") == {("t", 1): 6}


def test_a_group_that_is_not_there() -> None:
    assert delete(world(), {"t": [0]}) == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(world(), {"t": [0]}, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    client = world()
    commit(client, {("t", 0): 5})
    joined = stable(client)
    answer = delete(client, {"t": [0]})
    assert answer in (ErrorCode.NON_EMPTY_GROUP, {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert committed(client, "g") == {("t", 0): 5}
    leave(client, MemberIdentity(member_id=joined.member_id))
    assert delete(client, {"t": [0]}) == {("t", 0): 0}
    assert committed(client, "g") == {}


def test_the_answer_comes_when_it_is_on_disk_and_a_restart_keeps_it() -> None:
    client = world(kqueue_storage="local")
    commit(client, {("t", 0): 1, ("t", 1): 2})
    started = client.start(request("g", {"t": [0]}), 0)
    assert started.response is None
    client.sim.settle()
    assert started.response.topics[0].partitions[0].error_code == 0  # type: ignore[attr-defined]
    client.sim.stop()
    assert committed(SimulatedClient(sim=client.sim.restarted()), "g") == {("t", 1): 2}


def test_a_flush_timeout_is_reported() -> None:
    client = world(kqueue_storage="local")
    commit(client, {("t", 0): 1})
    started = client.start(request("g", {"t": [0]}), 0)
    client.sim.clock.advance(5_000)
    client.sim.broker.scheduler.timers.run_due(5_000)
    assert started.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@for_each("topics", [{}, {"t": []}])
def test_nothing_to_delete_is_no_error(topics: dict[str, list[int]]) -> None:
    client = world()
    commit(client, {("t", 0): 1})
    assert delete(client, topics) == {}
