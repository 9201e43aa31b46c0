from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.receive_buffer import RECEIVE_BYTES
from kqueue.tests.network.harness import (
    API,
    LIMITS,
    Client,
    Harness,
    MiB,
    framed,
    network_harness,
    request_bytes,
    until,
)
from kqueue.wire.messages.api_versions import ApiVersionsResponse
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def heartbeat(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
    """Answers with the generation as throttle time, so that answers can be told apart."""
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


def waits(harness: Harness) -> Callable[[HeartbeatRequest, RequestContext], Any]:
    """A handler that waits for its group's name as a key; at its deadline it answers with error 1."""

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
    """Serve Produce: the topic's name is the key that it waits for ("": none), `timeout_ms` its
    number.

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
    """Send what `produce_waits` serves; its correlation id is `number`."""
    client.send(
        "Produce", 9, number, acks=-1, timeout_ms=number, topic_data=[TopicProduceData(name=key, partition_data=[])]
    )


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_request_is_answered(version: int) -> None:
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


def test_requests_in_one_packet_are_answered_in_order() -> None:
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


def test_a_request_cut_at_any_byte_is_answered_when_the_rest_comes() -> None:
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


def test_a_request_larger_than_the_receive_buffer_arrives_whole_and_those_after_it_too() -> None:
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


def produce_request(records: bytes, acks: int = 1) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_a_handler_may_write_into_the_records_of_its_request() -> None:
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


def test_a_request_without_an_answer_leaves_none() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Produce", lambda request, call: ProduceResponse() if request.acks else None)
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send_raw(request_bytes(API["Produce"], 9, produce_request(b"", acks=0), 1))
            client.send("Heartbeat", 4, 2, generation_id=5)
            assert await client.receive("Heartbeat", 4) == (2, HeartbeatResponse(throttle_time_ms=5))

    run(test)


def test_a_produce_that_follows_only_produces_begins_at_once_and_answers_keep_their_order() -> None:
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


@pytest.mark.parametrize("split", [False, True], ids=["in one packet", "one by one"])
@pytest.mark.parametrize("second", [PRODUCE_WAITS, WAITS, ANSWERED])
@pytest.mark.parametrize("first", [(PRODUCE_WAITS,), (WAITS,), (PRODUCE_WAITS, PRODUCE_WAITS)], ids=", ".join)
def test_a_request_begins_when_all_before_it_are_answered(first: tuple[str, ...], second: str, split: bool) -> None:
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


@pytest.mark.parametrize("size", [5_000, 100_000, 300_000])
def test_of_a_large_request_that_may_not_begin_yet_no_more_is_read_than_one_receive_buffer(size: int) -> None:
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
def test_a_client_that_left_behind_a_held_back_request_does_not_stay_for_as_long_as_the_first_one_waits() -> None:
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
            async with asyncio.timeout(10):
                while not harness.gone:
                    await harness.pass_ms(1000)
                    await asyncio.sleep(0.001)

    run(test)


async def settle() -> None:
    """Let the loop turn often enough for whatever would begin to begin."""
    for _ in range(20):
        await asyncio.sleep(0.0005)


def test_a_wait_ends_at_its_deadline() -> None:
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


def test_a_client_that_leaves_takes_its_waits_along() -> None:
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


def test_no_more_requests_are_read_while_too_many_wait() -> None:
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


def test_when_all_connections_together_wait_too_much_each_may_have_one_request() -> None:
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
            await harness.pass_ms(1000)  # the sweep lets it go on, now that there is room, and so finds its end
            await until(lambda: harness.connections.waiting_requests == 0)

    run(test)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff\xff", "found -1"),
        (b"\x7f\xff\xff\xff", "found 2147483647"),
        ((4 * MiB + 1).to_bytes(4, "big"), f"found {4 * MiB + 1}"),
        (b"GET / HTTP/1.1\r\n", "it speaks HTTP"),
        (b"\x16\x03\x01\x02\x00", "it speaks TLS"),
        (framed(b""), "found 0 bytes"),
        (framed(b"\x00\x0c\x00\x04"), "Header"),
        (framed(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"), "no API with key 999"),
        (framed(b"\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff"), "version 99"),
        (request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[:3] + b"\x00" + b"\x00" * 20, ""),
    ],
)
def test_what_is_no_request_closes_the_connection_with_one_line(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            neighbour, _ = await harness.connect()
            client, _ = await harness.connect()
            client.send_raw(data)
            assert await client.closed() == b""
            assert (await neighbour.ask("Heartbeat", 4, generation_id=8)).throttle_time_ms == 8

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    [record] = caplog.records
    assert reason in record.getMessage()
    assert "closed the connection of 127.0.0.1:" in record.getMessage()


def test_what_was_asked_properly_before_a_broken_request_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send("Heartbeat", 4, generation_id=1)
            client.send_raw(framed(request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[4:-1]))
            await client.receive("Heartbeat", 4)
            assert await client.closed() == b""

    run(test)
    [record] = caplog.records
    assert "closed the connection of 127.0.0.1:" in record.getMessage()


def test_bytes_left_over_after_a_request_are_ignored() -> None:
    """Kafka does so, and librdkafka's Metadata request for all topics leaves three."""

    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send_raw(
                framed(request_bytes(API["Heartbeat"], 4, HeartbeatRequest(generation_id=7))[4:] + b"\1\0\0")
            )
            assert (await client.receive("Heartbeat", 4))[1].throttle_time_ms == 7

    run(test)


def test_an_error_that_a_handler_did_not_catch_is_told_to_the_client() -> None:
    async def test() -> None:
        async with network_harness() as harness:

            def refuse(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
                raise CoordinatorNotAvailable("try again")

            harness.serve("Heartbeat", refuse)
            client, _ = await harness.connect()
            assert (await client.ask("Heartbeat", 4)).error_code == 15

    run(test)


@pytest.mark.parametrize("late", [False, True])
def test_an_unexpected_error_is_logged_once_with_its_traceback_and_the_client_is_told(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with network_harness() as harness:

            def bug(*_: object) -> HeartbeatResponse:
                raise ZeroDivisionError("a bug")

            harness.serve("Heartbeat", (lambda request, call: DelayedOperation(("k",), None, bug)) if late else bug)
            client, _ = await harness.connect()
            client.send("Heartbeat", 4)
            await asyncio.sleep(0)
            await until(lambda: bool(caplog.records) or len(harness.purgatory) == 1)
            harness.purgatory.wake("k")
            assert (await client.receive("Heartbeat", 4))[1].error_code == -1
            harness.serve("Heartbeat", heartbeat)

    run(test)
    [record] = caplog.records
    assert record.exc_info is not None
    assert "Heartbeat version 4 of 127.0.0.1:" in record.getMessage()


def test_an_api_versions_request_from_the_future_is_handed_on_with_its_version() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            versions = []
            harness.serve(
                "ApiVersions",
                lambda request, call: versions.append(call.api_version) or ApiVersionsResponse(error_code=35),
            )
            client, _ = await harness.connect()
            client.send_raw(framed(b"\x00\x12\x00\x09\x00\x00\x00\x05\xff\xff\x00" + b"who knows"))
            assert await client.receive("ApiVersions", 0) == (5, ApiVersionsResponse(error_code=35))
            assert versions == [9]

    run(test)


# --- the end


def test_after_stop_reading_nothing_more_starts_and_expire_answers_what_has_a_deadline() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started: list[int] = []
            produce_waits(harness, started)
            client, session = await harness.connect()
            send_produce(client, "a", 1)
            send_produce(client, "!a", 2)
            await until(lambda: len(harness.purgatory) == 2)
            session.stop_reading()
            session.expire()
            harness.connections.flush()
            send_produce(client, "", 3)
            assert (await client.receive("Produce", 9))[0] == 1
            assert not session.is_idle
            harness.purgatory.wake("!a")
            assert (await client.receive("Produce", 9))[0] == 2
            assert session.is_idle
            session.close()
            assert await client.closed() == b""
            assert started == [1, 2]

    run(test)


def test_a_client_that_ends_in_the_middle_of_a_request_leaves_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            client, _ = await harness.connect()
            client.send_raw(request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[:-1])
            await client.close()
            await until(lambda: bool(harness.gone))

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    [record] = caplog.records
    assert "it ended in the middle of a request" in record.getMessage()


def test_a_client_that_leaves_between_requests_leaves_no_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            await client.ask("Heartbeat", 4)
            await client.close()
            await until(lambda: bool(harness.gone))

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    assert caplog.records == []
