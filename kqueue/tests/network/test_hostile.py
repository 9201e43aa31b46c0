"""Hostile clients at the socket of a whole broker.

Whatever they send, they get a protocol error or a closed connection, and one line in the log.
A second client is not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import lzma
import random
import resource
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kqueue.api.handler_table import all_handlers
from kqueue.app import Server
from kqueue.tests.golden import FOLDER
from kqueue.tests.network.harness import Client, connect, framed, serving, until
from kqueue.tests.test_app import create_topic, produce
from kqueue.tests.thorough import corners, examples

HOSTILE = settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
LIMIT = 1 << 20
DONE_WITHIN_S = 30.0
SERVED = {row.api.key: row.versions for row in all_handlers()}


class Room:
    """A broker and a well-behaved client; `send` plays the hostile one."""

    def __init__(self, server: Server, neighbour: Client) -> None:
        self.server = server
        self.neighbour = neighbour

    async def send(self, *pieces: bytes) -> bytes:
        """Send the pieces and half-close; return what the broker sends until it closes."""
        client = await connect(self.server)
        for piece in pieces:
            client.send_raw(piece)
            await asyncio.sleep(0)
        with contextlib.suppress(OSError):  # it has closed the connection already
            client.writer.write_eof()
        async with asyncio.timeout(DONE_WITHIN_S):
            answer = await client.closed()
        await client.close()
        return answer

    async def check(self) -> None:
        """Check that the well-behaved client is served and no session is left."""
        async with asyncio.timeout(DONE_WITHIN_S):
            assert (await self.neighbour.ask("ApiVersions", 0)).error_code == 0
            await produce(self.neighbour, "neighbour", b"undisturbed")
        await until(lambda: len(self.server.connections.sessions) == 1)
        assert self.server.connections.request_budget.used == 0


def hostile(test: Callable[[Room], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(socket_request_max_bytes=LIMIT) as server:
            neighbour = await connect(server)
            await create_topic(neighbour, "neighbour")
            room = Room(server, neighbour)
            await test(room)
            await room.check()

    asyncio.run(run())


@functools.cache
def recorded() -> dict[tuple[int, int], bytes]:
    """Return one request of stock clients for each served API and version."""
    requests_by_version: dict[tuple[int, int], bytes] = {}
    for line in lzma.decompress((FOLDER / "frames.jsonl.xz").read_bytes()).splitlines():
        row = json.loads(line)
        key, version, request = row["api"], row["version"], bytes.fromhex(row["request"])
        low, high = SERVED.get(key, (0, -1))
        if low <= version <= high and len(request) < 4096:
            requests_by_version.setdefault((key, version), request)
    return requests_by_version


def broker_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "kqueue.server" and record.levelno >= logging.INFO
    ]


def client_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in broker_lines(caplog) if "the connection of 127.0.0.1" in line]


@HOSTILE
@given(pieces=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=4))
def test_random_bytes(pieces: list[bytes]) -> None:
    async def test(room: Room) -> None:
        await room.send(*pieces)

    hostile(test)


@HOSTILE
@given(body=st.binary(max_size=300), key=st.sampled_from(sorted(SERVED)), data=st.data())
def test_valid_header_before_random_bytes(body: bytes, key: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(*SERVED[key]))

    async def test(room: Room) -> None:
        await room.send(framed(key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\2me" + body))

    hostile(test)


@pytest.mark.parametrize(("key", "version"), corners(sorted(recorded()), *dict(sorted(recorded())).items()))
def test_recorded_request_truncated_at_every_byte(key: int, version: int, caplog: pytest.LogCaptureFixture) -> None:
    request = recorded()[key, version]
    step = max(1, len(request) // 40)
    cuts = range(0, len(request), step)
    answers: list[bytes] = []

    async def test(room: Room) -> None:
        answers.extend(await asyncio.gather(*(room.send(framed(request[:cut])) for cut in cuts)))

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    assert len(client_lines(caplog)) + sum(map(bool, answers)) == len(cuts), "each is answered or closed, with one line"
    assert len(client_lines(caplog)) >= len(cuts) - 1
    assert not [record for record in caplog.records if record.exc_info], "a cut request is nothing unexpected"


@pytest.mark.parametrize("seed", range(4))
def test_recorded_requests_with_changed_bytes(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(seed)
    changed = []
    for request in recorded().values():
        bad = bytearray(request)
        for _ in range(rng.choice((1, 1, 3, 10))):
            bad[rng.randrange(len(bad))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        changed.append(bytes(bad))

    async def test(room: Room) -> None:
        for start in range(0, len(changed), 20):
            await asyncio.gather(*(room.send(framed(request)) for request in changed[start : start + 20]))

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    unexpected = [record.getMessage() + str(record.exc_info) for record in caplog.records if record.exc_info]
    assert unexpected == []


@pytest.mark.parametrize(
    "length",
    [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff", (LIMIT + 1).to_bytes(4, "big"), b"\0\0\0\0", b"\0\0\0\7"],
)
def test_impossible_lengths(length: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: Room) -> None:
        assert await room.send(length + b"1234567") == b""

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    [line] = client_lines(caplog)
    assert "closed the connection" in line


def test_announced_length_allocates_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: Room) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clients = [await connect(room.server) for _ in range(100)]
        for client in clients:
            client.send_raw(LIMIT.to_bytes(4, "big") + b"only this")
        await until(lambda: room.server.connections.request_budget.used == 100 * len("only this"))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024, "in KiB; 100 MiB were promised"
        assert (await room.neighbour.ask("ApiVersions", 0)).error_code == 0
        for client in clients:
            await client.close()

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    assert len(client_lines(caplog)) == 100


def excessive_counts() -> list[Any]:
    """Requests with an array or string length of 2^31 - 1."""
    huge = b"\x7f\xff\xff\xff"
    header = b"\0\0\0\1\xff\xff"
    return [
        pytest.param(b"\0\3\0\1" + header + huge, id="Metadata: topics"),
        pytest.param(b"\0\0\0\x07" + header + b"\xff\xff\0\1\0\0\0\1" + huge, id="Produce: topics"),
        pytest.param(
            b"\0\0\0\x07" + header + b"\xff\xff\0\1\0\0\0\1" + b"\0\0\0\1\0\1t" + huge, id="Produce: partitions"
        ),
        pytest.param(
            b"\0\0\0\x07" + header + b"\xff\xff\0\1\0\0\0\1" + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + huge,
            id="Produce: records",
        ),
        pytest.param(b"\0\x13\0\2" + header + huge, id="CreateTopics: topics"),
        pytest.param(
            b"\0\x0b\0\2" + header + b"\0\1g\0\0\x27\x10\0\0\x27\x10\0\0\0\1c" + huge, id="JoinGroup: protocols"
        ),
        pytest.param(b"\0\x12\0\3" + header + b"\0" + b"\xff\xff\xff\xff\x0f", id="ApiVersions: compact string"),
        pytest.param(
            b"\0\x12\0\3" + header + b"\xff\xff\xff\xff\xff\xff\xff\xff", id="ApiVersions: varint without end"
        ),
    ]


@pytest.mark.parametrize("request_bytes", excessive_counts())
def test_excessive_counts(request_bytes: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: Room) -> None:
        assert await room.send(framed(request_bytes)) == b""

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    assert len(client_lines(caplog)) == 1


@HOSTILE
@given(key=st.integers(-(2**15), 2**15 - 1), version=st.integers(-(2**15), 2**15 - 1))
def test_unserved_apis_and_versions(key: int, version: int) -> None:
    low, high = SERVED.get(key, (0, -1))

    async def test(room: Room) -> None:
        head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
        answer = await room.send(framed(head + b"\0\0\0\1\xff\xff\0"))
        if key == 18 and not low <= version <= high:
            assert int.from_bytes(answer[8:10], "big") == 35, "ApiVersions of any version is answered"
        elif not low <= version <= high:
            assert answer == b""

    hostile(test)


@pytest.mark.parametrize("above", [False, True])
def test_unserved_version_closes_the_connection_with_one_line(caplog: pytest.LogCaptureFixture, above: bool) -> None:
    unserved = [(key, high + 1 if above else low - 1) for key, (low, high) in SERVED.items() if key != 18]
    assert len(unserved) < 100, "one address may cause so many lines at once"

    async def test(room: Room) -> None:
        for key, version in unserved:
            head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
            assert await room.send(framed(head + b"\0\0\0\1\xff\xff\0")) == b""

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    assert len(client_lines(caplog)) == len(unserved)


def test_newer_api_versions_request_gets_the_supported_versions() -> None:
    async def test(room: Room) -> None:
        answer = await room.send(framed(b"\0\x12\0\x63\0\0\0\5\xff\xff\0whatever comes then"))
        assert answer[4:8] == b"\0\0\0\5"
        assert answer[8:10] == b"\0\x23"
        assert answer[10:14] == b"\0\0\0\1"
        assert answer[14:16] == b"\0\x12"

    hostile(test)


def test_many_bad_clients_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(room: Room) -> None:
        for _ in range(10):
            await asyncio.gather(*(room.send(b"\xff\xff\xff\xff") for _ in range(50)))

    with caplog.at_level(logging.INFO, "kqueue"):
        hostile(test)
    assert 100 <= len(client_lines(caplog)) <= 200


def test_endless_requests_one_byte_at_a_time() -> None:
    async def test(room: Room) -> None:
        request = framed(recorded()[18, 3])
        answers = await asyncio.gather(
            *(room.send(*[request[at : at + 1] for at in range(len(request))]) for _ in range(5))
        )
        assert all(answer[4:8] == request[8:12] for answer in answers)

    hostile(test)
