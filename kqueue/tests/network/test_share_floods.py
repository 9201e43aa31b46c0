"""A member that floods the broker with acquisitions, acknowledgements and sessions leaves others
undisturbed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kqueue.app import Server
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.tests.network.harness import Client, connect, request_bytes, serving, until
from kqueue.tests.test_app import create_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import share_acknowledge, share_fetch
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

RELEASE = 2
RECORDS = 2000
PARTITIONS = 8


async def fetch(client: Client, server: Server, member: str, epoch: int, **fields: object) -> Any:
    topics = []
    if epoch == 0:
        partitions = [share_fetch.FetchPartition(partition_index=index) for index in range(PARTITIONS)]
        topics = [share_fetch.FetchTopic(topic_id=server.broker.topics.get("t").id, partitions=partitions)]
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_records": PARTITIONS * RECORDS, "batch_size": 1, **fields}
    return await client.ask(
        "ShareFetch", 2, group_id="g", member_id=member, share_session_epoch=epoch, topics=topics, **values
    )


def releases(server: Server, epoch: int) -> bytes:
    """A request that releases every other record, one by one. Encoded before the test measures: the
    client runs on the broker's loop.
    """
    partitions = [
        share_acknowledge.AcknowledgePartition(
            partition_index=index,
            acknowledgement_batches=[
                share_acknowledge.AcknowledgementBatch(
                    first_offset=offset, last_offset=offset, acknowledge_types=[RELEASE]
                )
                for offset in range(0, RECORDS, 2)
            ],
        )
        for index in range(PARTITIONS)
    ]
    topic = share_acknowledge.AcknowledgeTopic(topic_id=server.broker.topics.get("t").id, partitions=partitions)
    request = share_acknowledge.ShareAcknowledgeRequest(
        group_id="g", member_id="flood", share_session_epoch=epoch, topics=[topic]
    )
    return request_bytes(BY_MODULE["share_acknowledge"], 2, request)


async def answers_beside(client: Client, flood: Callable[[], Awaitable[None]]) -> int:
    """Run `flood` while `client` asks; return how many answers it got meanwhile."""
    task = asyncio.ensure_future(flood())
    answers = 0
    while not task.done():
        assert (await client.ask("ApiVersions", 0)).error_code == 0
        answers += 1
    await task
    return answers


@pytest.mark.thorough
def test_a_second_client_is_undisturbed() -> None:
    async def test() -> None:
        async with serving(kqueue_storage="memory", group_share_max_share_sessions=500) as server:
            flooding, other = await connect(server), await connect(server)
            await create_topic(flooding, "t", PARTITIONS)
            topics = {"group_id": "g", "member_id": "flood", "member_epoch": 0, "subscribed_topic_names": ["t"]}
            assert (await flooding.ask("ShareGroupHeartbeat", 1, **topics)).error_code == 0
            await until(lambda: len(list(server.broker.share.coordinator.keys())) == PARTITIONS)
            assert (await fetch(flooding, server, "flood", 0)).error_code == 0
            batch = bytes(build_batch([Record(number, 1000, None, b"x" * 10) for number in range(RECORDS)]))
            data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
            produced = [TopicProduceData(name="t", partition_data=data)]
            await flooding.ask("Produce", 9, acks=-1, timeout_ms=30_000, topic_data=produced)

            count, epoch = 0, 1
            while count < PARTITIONS * RECORDS:
                acquired = await fetch(flooding, server, "flood", epoch)
                epoch += 1
                count += sum(
                    each.last_offset - each.first_offset + 1
                    for partition in acquired.responses[0].partitions
                    for each in partition.acquired_records
                )
            raw = releases(server, epoch)

            async def acknowledgements() -> None:
                flooding.send_raw(raw)
                assert len(await flooding.frame()) > 100
                for number in range(1, 2 * PARTITIONS):
                    answer = await fetch(flooding, server, "flood", epoch + number)
                    assert len(answer.responses[0].partitions[0].acquired_records) == 500

            async def sessions() -> None:
                codes = [(await fetch(flooding, server, f"m{number}", 0)).error_code for number in range(600)]
                assert codes.count(ErrorCode.SHARE_SESSION_LIMIT_REACHED) == 101

            requests = 2 * PARTITIONS
            assert await answers_beside(other, acknowledgements) > requests, "a long request leaves turns to others"
            assert await answers_beside(other, sessions) >= 600

    asyncio.run(test())
