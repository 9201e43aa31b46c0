"""Waiting for clients from coroutines, with clients on the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kqueue
from kqueue.testing import faults
from kqueue.tests.tables import for_each


async def send(bootstrap: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait("orders", value)


def test_records_of_a_producer_on_the_same_loop_are_waited_for() -> None:
    async def test() -> None:
        async with kqueue.Broker() as broker:
            sending = asyncio.create_task(send(broker.bootstrap, b"one", b"two"))
            records = await broker.wait_produced("orders", ["one", "two"])
            assert [record.value for record in records] == [b"one", b"two"]
            await sending
            with pytest.raises(AssertionError, match=r"1 missing.*\(after 0.01 s\)"):
                await broker.wait_produced("orders", ["one", "two", "three"], within_s=0.01)

    asyncio.run(test())


def test_a_consumer_on_the_same_loop_is_waited_for() -> None:
    async def test(broker: kqueue.Broker) -> None:
        async def read() -> None:
            async with AIOKafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap,
                group_id="mail",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer:
                await consumer.getone()
                await consumer.commit()

        reading = asyncio.create_task(read())
        await broker.wait_consumed("orders", group="mail", within_s=60)
        await reading

    with kqueue.Broker() as broker:  # started outside of the loop
        broker.create_topic("orders")
        broker.topics["orders"].produce("one")
        asyncio.run(test(broker))


def wait_for_a_fault(broker: kqueue.Broker) -> None:
    with faults(broker) as made:
        made.fail("Produce", error="INVALID_REQUEST").wait()


CALLS: list[tuple[Callable[[kqueue.Broker], object], str]] = [
    (lambda broker: broker.assert_produced("orders", ["one"], within_s=5), "await broker.wait_produced(...)"),
    (lambda broker: broker.assert_consumed("orders", group="mail", within_s=5), "await broker.wait_consumed(...)"),
    (lambda broker: broker.requests.wait_for("Produce"), "await broker.aio.wait_requests(...)"),
    (lambda broker: wait_for_a_fault(broker), "await asyncio.to_thread(fault.wait)"),
]


@for_each("call, instead", CALLS)
def test_blocking_calls_on_a_loop_name_the_alternative(call: Callable[[kqueue.Broker], object], instead: str) -> None:
    async def test(broker: kqueue.Broker) -> None:
        with pytest.raises(RuntimeError) as caught:
            call(broker)
        assert str(caught.value).endswith(f"write: {instead}")

    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce("one")
        asyncio.run(test(broker))


def test_non_waiting_calls_work_on_a_loop() -> None:
    async def test(broker: kqueue.Broker) -> None:
        broker.assert_produced("orders", ["one"])
        assert broker.requests.wait_for("ApiVersions", 0, 0) == []
        await asyncio.to_thread(broker.assert_produced, "orders", ["one"], within_s=30)

    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce("one")
        asyncio.run(test(broker))
