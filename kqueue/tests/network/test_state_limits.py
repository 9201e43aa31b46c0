"""Limits on broker state, and topics whose folders are created in jobs, seen over a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.tests.network.harness import Client, connect, serving
from kqueue.tests.test_app import create_topic
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.join_group import JoinGroupRequestProtocol
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData
from kqueue.wire.messages.sync_group import SyncGroupRequestAssignment

KIB = 1024


async def join(client: Client, group: str, member: str = "", size: int = KIB) -> Any:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size))]
    fields = {"group_id": group, "member_id": member, "protocol_type": "consumer", "protocols": protocols}
    answer = await client.ask("JoinGroup", 5, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, **fields)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        fields["member_id"] = answer.member_id
        answer = await client.ask("JoinGroup", 5, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, **fields)
    return answer


async def sync(client: Client, group: str, joined: Any, size: int) -> int:
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))]
    fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    return int((await client.ask("SyncGroup", 3, assignments=assignments, **fields)).error_code)


async def commit(client: Client, group: str, metadata: str = "") -> int:
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
    answer = await client.ask(
        "OffsetCommit", 6, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    return int(answer.topics[0].partitions[0].error_code)


async def produce(client: Client, topic: str, partition: int) -> int:
    data = PartitionProduceData(index=partition, records=bytes(build_batch([Record(0, 1_000, None, b"x")])))
    answer = await client.ask(
        "Produce", 9, acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    partition_response = answer.responses[0].partition_responses[0]
    assert partition_response.error_code == 0, partition_response
    return int(partition_response.base_offset)


def test_clients_get_non_retriable_errors_at_the_limits() -> None:
    async def test() -> None:
        bounds = {"kqueue_max_group_bytes": 10 * KIB, "kqueue_max_groups": 3, "kqueue_max_offsets_bytes": 2 * KIB}
        async with serving(**bounds) as server:
            client = await connect(server)
            await create_topic(client, "t")
            joined = await join(client, "g")
            assert joined.error_code == 0
            assert (await join(client, "h", size=11 * KIB)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            assert await commit(client, "a") == 0
            assert await commit(client, "a", "x" * 3 * KIB) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            assert await commit(client, "b") == 0
            assert await commit(client, "c") == ErrorCode.GROUP_MAX_SIZE_REACHED
            assert await sync(client, "g", joined, KIB) == 0

    asyncio.run(test())


def test_oversized_assignment_is_refused_and_a_smaller_one_accepted(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as server:
            client = await connect(server)
            joined = await join(client, "g")
            assert await sync(client, "g", joined, 2 * KIB * KIB) == ErrorCode.UNKNOWN_SERVER_ERROR
            again = await join(client, "g", joined.member_id)
            assert again.error_code == 0
            assert await sync(client, "g", again, KIB) == 0
        assert sum(file.stat().st_size for file in tmp_path.rglob("*.log")) < KIB * KIB

    asyncio.run(test())


def test_produce_right_after_topic_creation_is_accepted(tmp_path: Path) -> None:
    """Jobs create or remove the folders of 2,000 partitions meanwhile."""

    async def test() -> None:
        async with serving(tmp_path) as server:
            client = await connect(server)
            for _ in range(2):
                await create_topic(client, "many", 2_000)
                assert [await produce(client, "many", partition) for partition in (1_999, 0, 1_000)] == [0, 0, 0]
                answer = await client.ask("DeleteTopics", 5, topic_names=["many"], timeout_ms=30_000)
                assert answer.responses[0].error_code == 0
        assert not list(tmp_path.glob("many-*")), "a stop waits for a deletion"

    asyncio.run(test())
