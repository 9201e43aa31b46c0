"""One thousand clients at once, with a bound on memory."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from collections.abc import Iterator

import psutil
import pytest

from kqueue.schema import encode
from kqueue.tests.network.harness import API, framed, serving, until
from kqueue.wire.headers import request_header
from kqueue.wire.messages.api_versions import ApiVersionsRequest

COUNT = 1000
BYTES_EACH_MAX = 20 * 1024


@pytest.fixture(autouse=True)
def _raise_descriptor_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = 4 * COUNT
    if soft < required:
        if hard < required:
            pytest.skip(f"{hard} open files are allowed, {required} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (required, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
def test_thousand_connections_are_served_within_a_memory_bound() -> None:
    ask = framed(request_header(API["ApiVersions"].key, 0, 7, "c") + encode(ApiVersionsRequest(), 0))

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as server:
            place = server.bound("PLAINTEXT")
            clients = [socket.socket() for _ in range(COUNT)]
            try:
                for client in clients:
                    client.setblocking(False)
                gc.collect()
                before = psutil.Process().memory_info().rss
                await asyncio.gather(*(loop.sock_connect(client, place) for client in clients))
                await until(lambda: len(server.connections.sessions) == COUNT)
                for client in clients:
                    client.send(ask)
                for client in clients:
                    answer = await loop.sock_recv(client, 4096)
                    assert answer[4:8] == b"\0\0\0\7"
                gc.collect()
                after = psutil.Process().memory_info().rss
                assert (after - before) / COUNT <= BYTES_EACH_MAX
                server.loop_driver.run_now()
                assert len(server.connections.sessions) == COUNT
            finally:
                for client in clients:
                    client.close()
            await until(lambda: not server.connections.sessions)

    asyncio.run(test())
