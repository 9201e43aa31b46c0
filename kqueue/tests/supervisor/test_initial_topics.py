from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kqueue.base.errors import InvalidReplicationFactor
from kqueue.supervisor.initial_topics import all_serve, create_topics
from kqueue.tests.network.harness import serving


def test_missing_topics_are_created_once() -> None:
    async def run() -> None:
        async with serving() as server:
            await create_topics(server, {"orders": 3, "payments": None})
            await create_topics(server, {"orders": 5})
            assert {topic.name: len(topic.partitions) for topic in server.broker.topics} == {"orders": 3, "payments": 1}

    asyncio.run(run())


def test_a_member_waits_until_it_and_the_others_may_lead(tmp_path: Path) -> None:
    async def run() -> None:
        store = f"sqlite:{tmp_path / 'cluster.db'}"
        async with serving(node_id=1, kqueue_cluster_store=store) as first:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(all_serve(first, [1, 2]), 0.5)
            async with serving(node_id=2, kqueue_cluster_store=store) as second:
                await asyncio.wait_for(all_serve(first, [1, 2]), 60)
                await asyncio.wait_for(all_serve(second, [1, 2]), 60)
                await create_topics(first, {"orders": 2})
                leaders = {partition.leader for partition in first.broker.topics.get("orders").partitions}
                assert leaders == {1, 2}

    asyncio.run(run())


def test_a_topic_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        store = f"sqlite:{tmp_path / 'cluster.db'}"
        async with serving(node_id=1, kqueue_cluster_store=store, default_replication_factor=2) as server:
            with pytest.raises(InvalidReplicationFactor):
                await create_topics(server, {"orders": 1})

    asyncio.run(run())
