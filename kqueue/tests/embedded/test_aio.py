"""The calls for coroutines: they do what those of the same name do, and let the loop run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import timedelta

import pytest
from aiokafka import AIOKafkaProducer

import kqueue
from kqueue.embedded.aio import AsyncBroker, AsyncNode
from kqueue.embedded.cluster_aio import AsyncCluster
from kqueue.tests.tables import for_each


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        yield broker


def test_a_test_of_coroutines_needs_no_thread_of_its_own(broker: kqueue.Broker) -> None:
    async def test() -> None:
        aio = broker.aio
        await aio.reset()
        await aio.create_topic("orders", 2)
        await aio.produce("orders", {"coffees": 2}, key="a", partition=1)
        await aio.produce_all("orders", ["x", "y"], partition=0)
        await aio.load_records([{"topic": "mails", "value": "hello"}])
        assert await aio.topics() == ["mails", "orders"]
        assert [one.value for one in await aio.records("orders", 0)] == [b"x", b"y"]
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            waiting = asyncio.create_task(aio.assert_produced("mails", ["hello", "sent"], within_s=60))
            requests = asyncio.create_task(aio.wait_requests("Produce", topic="mails", timeout_s=60))
            await asyncio.sleep(0)
            await producer.send_and_wait("mails", b"sent")  # on this loop, which must not be blocked
            await waiting
            assert len(await requests) == 1
        before = broker.clock.now()
        await aio.advance(hours=8)
        assert broker.clock.now() - before >= timedelta(hours=8)
        await aio.delete_topic("mails")
        await aio.restart()
        assert await aio.topics() == ["orders"]
        assert await aio.groups() == {}
        with pytest.raises(AssertionError, match="orders has 3 records, expected 1"):
            await aio.assert_produced("orders", ["x"])

    asyncio.run(test())


def test_a_call_that_would_block_names_the_one_that_does_not(broker: kqueue.Broker) -> None:
    async def test() -> None:
        with pytest.raises(RuntimeError, match="await broker.wait_produced"):
            broker.assert_produced("orders", ["x"], within_s=1)

    asyncio.run(test())


@for_each("kind", [AsyncNode, AsyncBroker, AsyncCluster])
def test_each_call_is_a_coroutine_with_the_words_of_its_model(kind: type) -> None:
    calls = {name: one for name, one in inspect.getmembers(kind, callable) if not name.startswith("_")}
    assert len(calls) >= 10
    assert all(inspect.iscoroutinefunction(one) and one.__doc__ for one in calls.values())


def test_signatures_are_those_of_the_calls() -> None:
    assert list(inspect.signature(AsyncNode.create_topic).parameters)[:3] == ["self", "name", "partitions"]
    assert list(inspect.signature(AsyncNode.produce).parameters)[:4] == ["self", "topic", "value", "key"]
