from __future__ import annotations

import asyncio

import kqueue


def test_a_cluster_has_its_calls_too() -> None:
    async def test() -> None:
        async with kqueue.Cluster(brokers=2) as cluster:
            aio = cluster.aio
            await aio.create_topic("orders")
            leader = await aio.wait_leader("orders")
            await aio.load_records([{"topic": "orders", "value": "x"}])
            await aio.stop(leader)
            assert await aio.wait_leader("orders", other_than=leader) != leader
            await aio.start(leader)
            await aio.partition({0}, {1})
            await aio.heal()
            await aio.pause(leader)
            await aio.resume(leader)
            await aio.kill(leader)
            await aio.restore()
            await aio.assert_produced("orders", ["x"])
            assert await cluster[0].aio.topics() == ["orders"]

    asyncio.run(test())
