"""Harness for connections to other brokers: a scripted broker on loopback, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kqueue.base.timers import Timers
from kqueue.interbroker.contract import PeerAddress
from kqueue.interbroker.errors import PeerError
from kqueue.network.peer_connections import PeerConnections
from kqueue.schema import decode, encode
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import framed, until
from kqueue.wire.apis import API_VERSIONS, BY_KEY
from kqueue.wire.headers import read_request_header, response_header
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kqueue.wire.messages.list_offsets import ListOffsetsResponse
from kqueue.wire.messages.metadata import MetadataResponse
from kqueue.workers.executor import JobExecutor

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[["ScriptedBroker", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
RESPONSE_BYTES_MAX = 4 << 20
FETCH = 1
METADATA = 3


class ScriptedBroker:
    """A listener whose connections are served by `serve`, in order; the last serves the rest."""

    def __init__(self, *serve: Serve) -> None:
        self.scripts = list(serve)
        self.connections = 0
        self.requests: list[tuple[int, int, str | None]] = []  # key, version, client id
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await script(self, reader, writer)
        writer.close()
        self._tasks.discard(task)

    async def request(self, reader: asyncio.StreamReader) -> tuple[int, int, int, Any]:
        """Return key, version, correlation id and body of the next request."""
        frame = memoryview(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
        header, position = read_request_header(frame)
        self.requests.append((header.api_key, header.api_version, header.client_id))
        body = decode(BY_KEY[header.api_key].request_class, header.api_version, frame[position:])
        return header.api_key, header.api_version, header.correlation_id, body

    async def negotiate(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        served: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        """Answer ApiVersions; `served` None: every API, in all versions."""
        key, version, correlation_id, _ = await self.request(reader)
        assert key == API_VERSIONS
        served = {each.key: each.versions for each in BY_KEY.values()} if served is None else served
        rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in served.items()]
        writer.write(response_frame(key, version, correlation_id, ApiVersionsResponse(api_keys=rows)))


def response_frame(key: int, version: int, correlation_id: int, response: object) -> bytes:
    return framed(response_header(key, version, correlation_id) + encode(response, version))


def answering(respond: Callable[[int, Any], object]) -> Serve:
    """Serve every request with what `respond(key, request)` returns."""

    async def serve(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await broker.negotiate(reader, writer)
        while True:
            key, version, correlation_id, body = await broker.request(reader)
            writer.write(response_frame(key, version, correlation_id, respond(key, body)))

    return serve


class Outcome:
    """What `done` was called with."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def __call__(self, value: Any) -> None:
        self.values.append(value)

    async def value(self) -> Any:
        await until(lambda: bool(self.values))
        assert len(self.values) == 1, "done is called once"
        return self.values[0]

    async def error(self) -> PeerError:
        value = await self.value()
        assert isinstance(value, PeerError), value
        return value


class PeerHarness:
    """Connections to brokers whose addresses the test sets."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.jobs = JobExecutor(loop, 1)
        self.addresses: dict[int, PeerAddress] = {}
        self.peers = PeerConnections(
            loop,
            self.clock,
            self.timers,
            self.jobs,
            self.addresses.get,
            client_id="broker-0",
            response_bytes_max=RESPONSE_BYTES_MAX,
            rng=random.Random(0),
        )
        self._brokers: list[ScriptedBroker] = []

    async def broker(self, *serve: Serve, node_id: int = 1, port: int = 0, epoch: int = 1) -> ScriptedBroker:
        """Start a broker, and have it in the cluster."""
        broker = ScriptedBroker(*serve)
        await broker.start(port)
        self._brokers.append(broker)
        self.addresses[node_id] = PeerAddress("127.0.0.1", broker.port, epoch)
        return broker

    def send(self, request: object, node_id: int = 1, timeout_ms: float = 30_000, channel: str = "requests") -> Outcome:
        outcome = Outcome()
        self.peers.send(node_id, request, outcome, timeout_ms=timeout_ms, channel=channel)
        assert not outcome.values, "done is never called within send"
        return outcome

    def pass_ms(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.monotonic_ms())

    async def close(self) -> None:
        self.peers.close()
        for broker in self._brokers:
            await broker.stop()
        await self.jobs.drain()
        self.jobs.stop()


@contextlib.asynccontextmanager
async def peer_harness() -> AsyncIterator[PeerHarness]:
    harness = PeerHarness()
    try:
        yield harness
    finally:
        await harness.close()


def peered(test: Callable[[PeerHarness], Awaitable[None]]) -> None:
    async def run() -> None:
        async with peer_harness() as harness:
            await test(harness)

    asyncio.run(run())


def echo(key: int, request: Any) -> object:
    """Respond with the number that the request carries."""
    if key == METADATA:
        return MetadataResponse(cluster_id=request.topics[0].name if request.topics else "none")
    if key == FETCH:
        return fetch_response(b"x" * request.max_bytes)
    return ListOffsetsResponse(throttle_time_ms=7)


def fetch_response(records: bytes) -> FetchResponse:
    data = PartitionData(partition_index=0, high_watermark=5, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=[data])])


def fetch(max_bytes: int = 10) -> FetchRequest:
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes)
