"""A broker in this process whose client acts only while the event loop has nothing to do.

So the number of turns of the loop is the same in every run: a turn sees all that the client has
sent, and a job ends before the next turn begins. Time slices and timers would bring the machine
in: let the clocks stand still (`guard.stop_clocks`).
"""

from __future__ import annotations

import asyncio
import select
import selectors
import socket
import struct
import tempfile
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from benchmarks import frames
from kqueue.app import Server
from kqueue.config.properties import SourcedValue, make_config
from kqueue.network.event_loop import BrokerEventLoop
from kqueue.wire.messages import create_topics

WAIT_S = 30
"""Ends a hang only."""
SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "kqueue.watchdog.ms": "0"}
CREATE_TOPICS = 2
ROOM_BYTES = 64 * 1024
Script = Generator[int, None, None]
"""A client. It yields how many of its connections the broker is to find readable, and is resumed
when the loop has nothing to do, which means that all responses were sent.
"""


class Meter(Protocol):
    """Counts what the broker does between `begin` and `end`, but not the client in this process."""

    def pause(self) -> None:
        """Count nothing on this thread until `resume`: the client acts."""

    def resume(self) -> None:
        """Count again on this thread."""


class SteppedSelector(selectors.DefaultSelector):
    """The selector of the broker's loop; see the module. `script` None: an ordinary selector."""

    def __init__(self, meter: Meter, jobs_under_way: Callable[[], int]) -> None:
        super().__init__()
        self._meter = meter
        self._jobs_under_way = jobs_under_way
        self._own: set[int] = set()
        self._script: Script | None = None
        self._ended: Callable[[], None]

    def run(self, script: Script, ended: Callable[[], None]) -> None:
        """Let `script` act from now on; call `ended` after its end."""
        self._own = set(self._descriptors())
        self._script, self._ended = script, ended

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._meter.pause()
        if self._script is not None:
            if self._jobs_under_way():
                select.select(list(self._own), [], [], WAIT_S)  # until the end of the job wakes the loop
            elif timeout is None or timeout > 0:
                self._act()
            timeout = 0
        self._meter.resume()
        return super().select(timeout)

    def _act(self) -> None:
        assert self._script is not None
        try:
            readable_count = next(self._script)
        except StopIteration:
            self._script = None
            self._ended()
            return
        # What was sent to this machine is there at once; the wait is for a listening socket.
        watched = list(self._descriptors())
        while readable_count and len(select.select(watched, [], [], WAIT_S)[0]) < readable_count:
            pass

    def _descriptors(self) -> Iterator[int]:
        return (key.fd for key in self.get_map().values())


class Client:
    """Connections to the broker, as a script uses them.

    `end_offset`: of partition 0, and `session`: id and next epoch of a fetch session, where the
    script counts them.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._room = bytearray(ROOM_BYTES)
        self.connections: list[socket.socket] = []
        self.end_offset = 0
        self.session = (0, 0)

    def connect(self, count: int) -> Script:
        """Add connections."""
        for _ in range(count):
            self.connections.append(socket.create_connection(("127.0.0.1", self._port), timeout=WAIT_S))
            self.connections[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield 1

    def create_topic(self, name: str, partitions: int) -> Script:
        """Create a topic."""
        topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[topic])
        self.connections[0].sendall(frames.frame(19, CREATE_TOPICS, request))
        yield 1
        self.receive(0, 1)

    def receive(self, connection: int, count: int) -> memoryview:
        """Receive `count` whole responses; return the last one without its size."""
        sock, response = self.connections[connection], memoryview(b"")
        for _ in range(count):
            (size,) = struct.unpack(">i", self._receive(sock, 4))
            response = self._receive(sock, size)
        return response

    def _receive(self, sock: socket.socket, size: int) -> memoryview:
        view = memoryview(self._room)[:size]
        while view:
            received = sock.recv_into(view)
            if not received:
                raise ConnectionError("the broker closed the connection")
            view = view[received:]
        return memoryview(self._room)[:size]

    def receive_large(self, connection: int) -> Script:
        """Receive a response that does not fit into the buffers of a socket."""
        sock = self.connections[connection]
        (left,) = struct.unpack(">i", self._receive(sock, 4))
        sock.setblocking(False)
        while left:
            try:
                left -= sock.recv_into(self._room, min(left, ROOM_BYTES))
            except BlockingIOError:
                yield 0
        sock.settimeout(WAIT_S)

    def close(self) -> None:
        """Close the connections."""
        for connection in self.connections:
            connection.close()


def run(flush: str, script: Callable[[Client], Script], meter: Meter) -> None:
    """Run a script with a new broker of this `kqueue.flush`, on the disk of temporary folders."""
    with tempfile.TemporaryDirectory() as folder:
        values = {**SETTINGS, "kqueue.flush": flush, "log.dirs": folder}
        server = Server(make_config({name: SourcedValue(value, "benchmarks") for name, value in values.items()}))
        selector = SteppedSelector(meter, lambda: server.jobs.under_way)
        with asyncio.Runner(loop_factory=lambda: BrokerEventLoop(selector)) as runner:
            runner.run(_serve(server, script, selector))


async def _serve(server: Server, script: Callable[[Client], Script], selector: SteppedSelector) -> None:
    await server.start()
    try:
        await server.ready()
        client = Client(server.bound(server.listener_names[0])[1])
        ended = asyncio.Event()
        try:
            selector.run(script(client), ended.set)
            await ended.wait()
        finally:
            client.close()
    finally:
        await server.stop()
