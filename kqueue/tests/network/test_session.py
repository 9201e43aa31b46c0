from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.receive_buffer import RECEIVE_BYTES
from kqueue.tests.network.harness import (
    API,
    LIMITS,
    Client,
    Harness,
    MiB,
    network_harness,
    request_bytes,
    until,
)
from kqueue.tests.tables import for_each
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def heartbeat(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
    """Return the generation as throttle time, so that responses can be identified."""
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


def waits(harness: Harness) -> Callable[[HeartbeatRequest, RequestContext], Any]:
    """Return a handler that waits for its group's name as a key; at its deadline it returns error
    1.
    """

    def handle(
        request: HeartbeatRequest, call: RequestContext
    ) -> HeartbeatResponse | DelayedOperation[HeartbeatResponse]:
        if not request.group_id:
            return heartbeat(request, call)
        woken = HeartbeatResponse(throttle_time_ms=request.generation_id)
        deadline_ms = None if request.member_id == "no deadline" else harness.clock.monotonic_ms() + 500
        return DelayedOperation(
            (request.group_id,), deadline_ms, lambda expired: HeartbeatResponse(error_code=1) if expired else woken
        )

    return handle


def produce_waits(harness: Harness, started: list[int] | None = None) -> None:
    """Serve Produce: the topic's name is its wait key ("": none), `timeout_ms` its number.

    A key with a "!" has no deadline.
    """

    def handle(request: ProduceRequest, call: RequestContext) -> ProduceResponse | DelayedOperation[ProduceResponse]:
        if started is not None:
            started.append(request.timeout_ms)
        key = request.topic_data[0].name
        response = ProduceResponse(throttle_time_ms=request.timeout_ms)
        deadline_ms = None if key.startswith("!") else harness.clock.monotonic_ms() + 500
        return DelayedOperation((key,), deadline_ms, lambda expired: response) if key else response

    harness.serve("Produce", handle)


def send_produce(client: Client, key: str, number: int = 0) -> None:
    """Send a Produce for `produce_waits`; its correlation id is `number`."""
    client.send(
        "Produce", 9, number, acks=-1, timeout_ms=number, topic_data=[TopicProduceData(name=key, partition_data=[])]
    )


@for_each("version", [0, 1, 4])
def test_request_gets_a_response(version: int) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            seen = []
            harness.serve("Heartbeat", lambda request, call: seen.append((request, call)) or heartbeat(request, call))
            client, _ = await harness.connect()
            response = await client.ask("Heartbeat", version, group_id="g", generation_id=9, member_id="m")
            assert response == HeartbeatResponse(throttle_time_ms=9 if version >= 1 else 0)
            [(request, call)] = seen
            assert (request.group_id, request.generation_id) == ("g", 9)
            assert (call.api_version, call.client_id, call.client_host, call.listener) == (
                version,
                "test",
                "/127.0.0.1",
                "PLAINTEXT",
            )

    run(test)


def test_requests_in_one_packet_get_responses_in_order() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            for number in range(50):
                client.send("Heartbeat", 4, number, generation_id=number)
            for number in range(50):
                correlation_id, response = await client.receive("Heartbeat", 4)
                assert (correlation_id, response.throttle_time_ms) == (number, number)

    run(test)


def test_request_split_at_any_byte_is_reassembled() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            for cut in range(
                1, len(data := request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="g", generation_id=3)))
            ):
                client.send_raw(data[:cut])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                client.send_raw(data[cut:])
                assert (await client.receive("Heartbeat", 4))[1].throttle_time_ms == 3

    run(test)


def test_request_larger_than_the_receive_buffer_is_received() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            names: list[str] = []
            harness.serve(
                "Heartbeat", lambda request, call: names.append(request.member_id) or heartbeat(request, call)
            )
            harness.serve(
                "Produce",
                lambda request, call: (
                    names.append(bytes(request.topic_data[0].partition_data[0].records)) or ProduceResponse()
                ),
            )
            records = bytes(range(256)) * (3 * MiB // 256)
            client, _ = await harness.connect()
            for number in range(3):
                produce = produce_request(records)
                client.send_raw(request_bytes(API["Produce"], 9, produce, number))
                client.send("Heartbeat", 4, member_id=f"m{number}", generation_id=1)
            for number in range(3):
                assert (await client.receive("Produce", 9))[0] == number
                await client.receive("Heartbeat", 4)
            assert names == [records, "m0", records, "m1", records, "m2"]
            assert harness.connections.request_budget.used == 0

    run(test)


def test_arrival_of_a_request_is_that_of_its_first_byte_while_it_is_noted() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            arrived: list[float] = []

            def handle(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
                arrived.append(call.connection.take_arrival_ms())  # type: ignore[attr-defined]
                return heartbeat(request, call)

            harness.serve("Heartbeat", handle)
            client, _ = await harness.connect()
            await client.ask("Heartbeat", 4)
            harness.connections.notes_arrivals = True
            first, second, third = (
                request_bytes(API["Heartbeat"], 4, HeartbeatRequest(member_id="m" * 100), number) for number in range(3)
            )
            began_ms = harness.clock.monotonic_ms()
            (session,) = harness.connections.sessions
            client.send_raw(first[:50])
            await until(lambda: session._input.has_partial)  # type: ignore[attr-defined]
            harness.clock.advance(30)
            client.send_raw(first[50:] + second)
            await client.receive("Heartbeat", 4)
            await client.receive("Heartbeat", 4)
            harness.clock.advance(30)
            client.send_raw(third)
            await client.receive("Heartbeat", 4)
            assert arrived == [0.0, began_ms, began_ms + 30, began_ms + 60]

    run(test)


def produce_request(records: bytes, acks: int = 1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_handler_may_write_into_the_records_of_its_request() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            seen = []

            def produce(request: ProduceRequest, call: RequestContext) -> ProduceResponse:
                records = request.topic_data[0].partition_data[0].records
                records[:3] = b"abc"
                seen.append(bytes(records))
                return ProduceResponse()

            harness.serve("Produce", produce)
            client, _ = await harness.connect()
            for size in (10, 20_000, 200_000):
                client.send_raw(request_bytes(API["Produce"], 9, produce_request(b"x" * size)))
                await client.receive("Produce", 9)
            assert seen == [b"abc" + b"x" * (size - 3) for size in (10, 20_000, 200_000)]

    run(test)


def test_request_without_a_response_sends_nothing() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Produce", lambda request, call: ProduceResponse() if request.acks else None)
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send_raw(request_bytes(API["Produce"], 9, produce_request(b"", acks=0), 1))
            client.send("Heartbeat", 4, 2, generation_id=5)
            assert await client.receive("Heartbeat", 4) == (2, HeartbeatResponse(throttle_time_ms=5))

    run(test)


def test_produce_after_produces_starts_at_once_and_responses_keep_their_order() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started: list[int] = []
            produce_waits(harness, started)
            client, _ = await harness.connect()
            for number, key in enumerate(["a", "", "b", ""]):
                send_produce(client, key, number)
            await until(lambda: len(started) == 4)
            harness.purgatory.wake("b")
            await asyncio.sleep(0)
            assert not client.reader._buffer  # type: ignore[attr-defined]
            harness.purgatory.wake("a")
            answers = [await client.receive("Produce", 9) for _ in range(4)]
            assert [(number, response.throttle_time_ms) for number, response in answers] == [
                (0, 0),
                (1, 1),
                (2, 2),
                (3, 3),
            ]

    run(test)


PRODUCE_WAITS, WAITS, ANSWERED = "Produce that waits", "request that waits", "request that is answered at once"


@for_each("split", [False, True])
@for_each("second", [PRODUCE_WAITS, WAITS, ANSWERED])
@for_each("first", [(PRODUCE_WAITS,), (WAITS,), (PRODUCE_WAITS, PRODUCE_WAITS)])
def test_request_starts_after_all_earlier_responses(first: tuple[str, ...], second: str, split: bool) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started: list[int] = []
            produce_waits(harness, started)
            handle = waits(harness)
            harness.serve(
                "Heartbeat", lambda request, call: started.append(request.generation_id) or handle(request, call)
            )
            client, session = await harness.connect()
            kinds = [*first, second]
            for number, kind in enumerate(kinds):
                if kind == PRODUCE_WAITS:
                    send_produce(client, f"k{number}", number)
                else:
                    key = f"k{number}" if kind == WAITS else ""
                    client.send("Heartbeat", 4, number, group_id=key, generation_id=number)
                if split:
                    await until(lambda: bool(session._input.has_partial) or session._received_bytes > 0)
                    await asyncio.sleep(0.001)
            await until(lambda: bool(started))
            await settle()
            overlaps = set(kinds) == {PRODUCE_WAITS}
            for number in range(len(first)):
                assert len(started) == (len(kinds) if overlaps else len(first)), "the rule"
                harness.purgatory.wake(f"k{number}")
                await client.receive(
                    "Produce" if kinds[number] == PRODUCE_WAITS else "Heartbeat",
                    9 if kinds[number] == PRODUCE_WAITS else 4,
                )
            await until(lambda: len(started) == len(kinds))
            harness.purgatory.wake(f"k{len(first)}")
            correlation_id, _ = await client.receive(
                "Produce" if second == PRODUCE_WAITS else "Heartbeat", 9 if second == PRODUCE_WAITS else 4
            )
            assert (correlation_id, started) == (len(first), list(range(len(kinds))))

    run(test)


@for_each("size", [5_000, 100_000, 300_000])
def test_blocked_large_request_is_read_up_to_one_receive_buffer(size: int) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", waits(harness))
            sizes: list[int] = []
            harness.serve(
                "Produce",
                lambda request, call: (
                    sizes.append(len(request.topic_data[0].partition_data[0].records)) or ProduceResponse()
                ),
            )
            client, session = await harness.connect()
            client.send("Heartbeat", 4, 1, group_id="a", member_id="no deadline")
            await until(lambda: not session.is_idle)
            client.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(size)), 2))
            client.send("Heartbeat", 4, 3)
            await settle()
            assert sizes == []
            assert harness.connections.request_budget.used <= RECEIVE_BYTES
            harness.purgatory.wake("a")
            assert (await client.receive("Heartbeat", 4))[0] == 1
            assert (await client.receive("Produce", 9))[0] == 2
            assert (await client.receive("Heartbeat", 4))[0] == 3
            assert (sizes, harness.connections.request_budget.used) == ([size], 0)

    run(test)


@pytest.mark.skipif(
    not hasattr(select, "POLLRDHUP"), reason="the system can't say whether the peer has closed without reading"
)
def test_disconnect_behind_a_blocked_request_is_noticed_at_once() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve(
                "Heartbeat",
                lambda request, call: DelayedOperation((1,), 1e12, lambda expired: heartbeat(request, call)),
            )
            client, session = await harness.connect()
            client.send("Heartbeat", 4, 1)
            await until(lambda: not session.is_idle)
            client.send("Heartbeat", 4, 2)
            await settle()
            await client.close()
            async with asyncio.timeout(60):
                while not harness.gone:
                    await harness.pass_ms(1000)
                    await asyncio.sleep(0.001)

    run(test)


async def settle() -> None:
    """Run enough loop turns for every request that can start to start."""
    for _ in range(20):
        await asyncio.sleep(0.0005)


def test_delayed_request_ends_at_its_deadline() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", waits(harness))
            client, session = await harness.connect()
            client.send("Heartbeat", 4, group_id="never")
            await until(lambda: not session.is_idle)
            await harness.pass_ms(499)
            assert not session.is_idle
            await harness.pass_ms(1)
            assert (await client.receive("Heartbeat", 4))[1].error_code == 1

    run(test)


def test_disconnect_cancels_delayed_requests() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", waits(harness))
            client, session = await harness.connect()
            client.send("Heartbeat", 4, group_id="a")
            await until(lambda: not session.is_idle)
            await client.close()
            await until(lambda: bool(harness.gone))
            assert len(harness.purgatory) == 0

    run(test)


def test_reading_pauses_while_too_many_requests_wait() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(requests=3)) as harness:
            started: list[int] = []
            produce_waits(harness, started)
            client, _ = await harness.connect()
            for number in range(10):
                send_produce(client, f"g{number}", number)
            await until(lambda: len(started) == 3)
            for number in range(10):
                harness.purgatory.wake(f"g{number}")
                assert (await client.receive("Produce", 9))[0] == number
                assert len(started) <= number + 4
            assert started == list(range(10))

    run(test)


def test_each_connection_may_have_one_request_at_the_total_limit() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(requests_of_all=4)) as harness:
            started: list[int] = []
            produce_waits(harness, started)
            greedy, _ = await harness.connect()
            for number in range(10):
                send_produce(greedy, f"g{number}", number)
            await until(lambda: len(started) == 4)
            modest, session = await harness.connect()
            for number in (100, 101):
                send_produce(modest, "m", number)
            await until(lambda: not session.is_idle)
            assert started == [0, 1, 2, 3, 100]
            harness.purgatory.wake("m")
            assert (await modest.receive("Produce", 9))[0] == 100
            await until(lambda: started[-1] == 101)
            for number in range(10):
                harness.purgatory.wake(f"g{number}")
                assert (await greedy.receive("Produce", 9))[0] == number
            assert harness.connections.waiting_requests == 1
            await modest.close()
            await harness.pass_ms(1000)  # the sweep resumes it, now that memory is free, and so detects its end
            await until(lambda: harness.connections.waiting_requests == 0)

    run(test)
