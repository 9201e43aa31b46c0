"""Harness for the network layer without a broker: real sockets, a test's own API table, virtual
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kqueue.api.handler_table import ApiHandler, top_level_error
from kqueue.app import Server
from kqueue.base.clock import Clock
from kqueue.base.errors import UnsupportedVersion
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import Purgatory
from kqueue.config.properties import SourcedValue, keyword_name, make_config
from kqueue.network.client_log import ClientLog
from kqueue.network.connections import ConnectionRegistry, SessionLimits
from kqueue.network.contract import Accepted, Chunks, Connection
from kqueue.network.dispatch import Dispatcher
from kqueue.network.loop_driver import LoopDriver
from kqueue.network.responses import DeferredResponse, StartRequest
from kqueue.network.session import Session
from kqueue.schema import decode, encode
from kqueue.testing.manual_clock import ManualClock
from kqueue.wire.apis import BY_KEY, Api
from kqueue.wire.headers import read_response_header, request_header
from kqueue.workers.executor import JobExecutor

KiB = 1024
MiB = 1024 * KiB
API = {api.name: api for api in BY_KEY.values()}
LIMITS = SessionLimits(
    request_bytes=4 * MiB,
    requests=100,
    requests_of_all=1000,
    response_bytes=4 * MiB,
    idle_ms=600_000,
    slow_reader_ms=30_000,
    slow_sender_ms=30_000,
    slow_holder_ms=10_000,
    response_bytes_of_all=256 * MiB,
)
FREE_PORT = "PLAINTEXT://127.0.0.1:0"


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def request_bytes(api: Api, version: int, request: object, correlation_id: int = 1, client_id: str = "test") -> bytes:
    """Return a whole request as a client sends it, with its length prefix."""
    return framed(request_header(api.key, version, correlation_id, client_id) + encode(request, version))


def overwriting(start: StartRequest) -> StartRequest:
    """Wrap `start` so that it overwrites each request after handling it.

    A handler that kept a view of the request, instead of a copy, then fails its test.
    """

    def start_and_overwrite(frame: memoryview, connection: Connection) -> Chunks | DeferredResponse | None:
        try:
            return start(frame, connection)
        finally:
            frame[:] = b"\xdd" * len(frame)

    return start_and_overwrite


class Client:
    """A minimal client that checks every byte of a response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send_raw(self, data: bytes) -> None:
        self.writer.write(data)

    def send(self, name: str, version: int, correlation_id: int = 1, **fields: object) -> None:
        api = API[name]
        self.writer.write(request_bytes(api, version, api.request_class(**fields), correlation_id))

    async def frame(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def receive(self, name: str, version: int) -> tuple[int, Any]:
        """Return correlation id and body of the next response, which must belong to this API."""
        frame = memoryview(await self.frame())
        correlation_id, position = read_response_header(frame, API[name].key, version)
        return correlation_id, decode(API[name].response_class, version, frame[position:])

    async def ask(self, name: str, version: int, **fields: object) -> Any:
        self.send(name, version, 77, **fields)
        correlation_id, response = await self.receive(name, version)
        assert correlation_id == 77
        return response

    async def closed(self) -> bytes:
        """Return the bytes received before the server closed the connection."""
        try:
            return await self.reader.read()
        except (ConnectionResetError, BrokenPipeError):
            return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class Harness:
    """Connection registry, dispatcher and clock of one test."""

    def __init__(self, limits: SessionLimits) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers, self.clock)
        self.jobs = JobExecutor(loop, 2)
        self.served: dict[int, ApiHandler] = {}
        self.gone: list[str] = []
        self.client_log = client_log = ClientLog(logging.getLogger("kqueue.server"), self.clock)
        self.dispatcher = Dispatcher(self, self.purgatory, client_log, self._lookup)  # type: ignore[arg-type]
        self.connections = ConnectionRegistry(
            loop,
            self.clock,
            self.timers,
            self.jobs,
            limits,
            client_log,
            overwriting(self.dispatcher.start),
            lambda session: self.gone.append(session.host),
        )
        self.loop_driver = LoopDriver(loop, self.clock, self.timers, self.purgatory, self.connections.flush)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self._clients: list[Client] = []

    def serve(self, name: str, handle: Callable[[Any, Any], Any], versions: tuple[int, int] | None = None) -> None:
        """Register `handle` as the handler of the named API."""
        api = API[name]
        self.served[api.key] = ApiHandler(api, versions or api.versions, handle, top_level_error(api))

    async def connect(
        self, *, receive_bytes: int | None = None, send_bytes: int | None = None
    ) -> tuple[Client, Session]:
        """Return a new client over a TCP connection, and its session."""
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, self._listening.getsockname())
        accepted, (host, port) = await loop.sock_accept(self._listening)
        accepted.setblocking(False)
        if send_bytes is not None:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        session = Session(self.connections, accepted, Accepted(host, port, "PLAINTEXT"))
        client = Client(*await asyncio.open_connection(sock=sock, limit=64 * KiB))
        self._clients.append(client)
        return client, session

    async def pass_ms(self, ms: float) -> None:
        """Advance the clock in steps no longer than a sweep, and run what becomes due."""
        while ms > 0:
            step = min(ms, self.connections.limits.sweep_ms)
            self.clock.advance(step)
            ms -= step
            self.loop_driver.run_now()
            await asyncio.sleep(0)

    async def pass_second(self) -> None:
        """Advance the clock by one second, and run what becomes due."""
        await self.pass_ms(1000)
        await asyncio.sleep(0.005)

    async def close(self) -> None:
        self.connections.close()
        self.loop_driver.stop()
        for client in self._clients:
            await client.close()
        self._listening.close()
        await self.jobs.drain()
        self.jobs.stop()

    def _lookup(self, api_key: int, version: int) -> ApiHandler:
        handler = self.served.get(api_key)
        if handler is None or (not handler.versions[0] <= version <= handler.versions[1] and api_key != 18):
            raise UnsupportedVersion(f"no API with key {api_key} is served at version {version}")
        return handler


@contextlib.asynccontextmanager
async def network_harness(limits: SessionLimits = LIMITS) -> AsyncIterator[Harness]:
    """Yield a `Harness` and close it afterwards."""
    harness = Harness(limits)
    try:
        yield harness
    finally:
        await harness.close()


_CLIENTS: dict[Server, list[Client]] = {}


@contextlib.asynccontextmanager
async def serving(
    folder: Path | None = None, *, clock: Clock | None = None, **settings: object
) -> AsyncIterator[Server]:
    """Serve a whole server on a free port, in memory or in `folder`.

    Args: settings as keywords, with underscores for dots.
    """
    values = {keyword_name(keyword): value for keyword, value in settings.items()}
    place = {"kqueue.storage": "memory"} if folder is None else {"log.dirs": [str(folder)]}
    server = Server(
        make_config(
            {name: SourcedValue(value, "test") for name, value in ({"listeners": FREE_PORT} | place | values).items()}
        ),
        clock=clock,
    )
    await server.start()
    server.connections.start = overwriting(server.connections.start)
    try:
        yield server
    finally:
        for client in _CLIENTS.pop(server, []):
            await client.close()
        await server.stop()


async def connect(server: Server, listener: str = "PLAINTEXT") -> Client:
    """A client of a whole server, closed with it."""
    client = Client(*await asyncio.open_connection(*server.bound(listener), limit=64 * KiB))
    _CLIENTS.setdefault(server, []).append(client)
    return client


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Run the loop until the condition holds, up to a deadline."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.001)
