from __future__ import annotations

from typing import Any

import pytest

from kqueue.client.errors import BrokerRefused, ClientError, FetchOutOfRange
from kqueue.console.messages.message import Fault, Message
from kqueue.console.messages.message_page import (
    MessagePage,
    ReadLimits,
    ReadRequest,
    offset_ranges,
    offsets_at,
    read_message,
    read_page,
)
from kqueue.tests.console.messages.support import FakeClient, batch

BATCHES = {partition: [batch([b"x"] * 5, at) for at in range(0, 30, 5)] for partition in range(3)}


def read(client: FakeClient, direction: Any, offsets: dict[int, int] | None = None, **more: Any) -> MessagePage:
    ranges = offset_ranges(client.as_client, "t", sorted(client.batches))
    default = {one: end if direction == "backward" else start for one, (start, end) in ranges.items()}
    request = ReadRequest("t", default if offsets is None else offsets, direction, limits=ReadLimits(**more))
    return read_page(client.as_client, request, ranges)


def places(page: MessagePage) -> list[tuple[int, int]]:
    return [(message.partition, message.offset) for message in page.messages]


def test_pages_back_and_forth_have_every_message_once() -> None:
    client = FakeClient(BATCHES)
    every = {(partition, offset) for partition in range(3) for offset in range(30)}
    for direction, edge in (("backward", "lower"), ("forward", "upper")):
        seen: list[tuple[int, int]] = []
        page = read(client, direction, messages=7)
        while page.messages:
            seen += places(page)
            page = read(client, direction, dict(getattr(page, edge)), messages=7)
        assert len(seen) == len(every)
        assert set(seen) == every


def test_the_newest_of_all_partitions_come_first() -> None:
    client = FakeClient({0: [batch([b"x"] * 30)], 1: [batch([b"x"] * 2)]})
    page = read(client, "backward", messages=4)
    assert places(page) == [(0, 29), (0, 28), (0, 27), (0, 26)]
    assert (page.lower, page.upper) == ({0: 26, 1: 2}, {0: 30, 1: 2})
    assert (page.has_older, page.has_newer) == (True, False)


def test_offsets_outside_of_the_log_begin_at_its_nearest_end() -> None:
    client = FakeClient({0: [batch([b"x"] * 5, 10)]})
    assert places(read(client, "forward", {0: 3}))[0] == (0, 10)
    assert places(read(client, "backward", {0: 99}))[0] == (0, 14)
    assert places(read(client, "forward", {0: 99})) == []


def test_partitions_that_a_topic_does_not_have_are_ignored() -> None:
    assert places(read(FakeClient({0: [batch([b"x"])]}), "forward", {0: 0, 77: 5})) == [(0, 0)]


def test_a_page_that_a_limit_ends_says_so_and_can_be_gone_on_with() -> None:
    client = FakeClient({0: [batch([b"x"] * 200, at) for at in range(0, 2_000, 200)]}, chunk=1)
    ranges = offset_ranges(client.as_client, "t", [0])
    request = ReadRequest("t", {0: 0}, "forward", matches=lambda *_: False, limits=ReadLimits(records=300))
    page = read_page(client.as_client, request, ranges)
    assert page.messages == []
    assert page.stopped_by == "300 records"
    assert 300 <= page.upper[0] < 2_000
    assert page.has_newer


def test_a_partition_that_fails_is_a_fault_and_the_others_are_shown() -> None:
    client = FakeClient(BATCHES)

    def fail(offsets: dict[int, int]) -> None:
        if 1 in offsets:
            error = FetchOutOfRange("some partitions failed")
            error.failed = {("t", 1): BrokerRefused("partition 1 has no such offset")}
            raise error

    client.intercept = fail
    page = read(client, "forward", {0: 0, 1: 0, 2: 0})
    assert [(fault.partition, fault.reason) for fault in page.faults] == [(1, "partition 1 has no such offset")]
    assert {message.partition for message in page.messages} == {0, 2}


def test_a_page_fails_only_if_nothing_can_be_read() -> None:
    client = FakeClient(BATCHES, chunk=1)

    def fail(_: dict[int, int]) -> None:
        raise ClientError("all brokers are gone")

    client.intercept = fail
    with pytest.raises(ClientError, match="gone"):
        read(client, "forward")
    client.intercept = lambda _: fail(_) if len(client.fetches) > 2 else None
    page = read(client, "forward")
    assert page.messages
    assert {fault.reason for fault in page.faults} == {"all brokers are gone"}


def test_a_time_without_later_records_is_the_end() -> None:
    client = FakeClient(BATCHES)
    ranges = offset_ranges(client.as_client, "t", [0])
    assert offsets_at(client.as_client, "t", ranges, 5) == {0: 0}
    assert offsets_at(client.as_client, "t", {}, 5) == {}


def test_one_message_is_read_whole() -> None:
    value = b"y" * 300_000
    message = read_message(FakeClient({0: [batch([b"x", value, b"z"])]}).as_client, "t", 0, 1)
    assert isinstance(message, Message)
    assert (message.offset, message.value.data) == (1, value)


def test_an_offset_without_a_message_is_none_and_a_broken_one_a_fault() -> None:
    client = FakeClient({0: [batch([b"x"]), batch([b"y"], 9)]})
    assert read_message(client.as_client, "t", 0, 4) is None
    broken = bytearray(batch([b"x"]))
    broken[-1] ^= 1
    assert isinstance(read_message(FakeClient({0: [bytes(broken)]}).as_client, "t", 0, 0), Fault)
