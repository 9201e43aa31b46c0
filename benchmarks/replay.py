"""The cost of a client alone: a recording answers its requests, without a broker.

`record` is a proxy between a client and a broker that keeps the responses by API and in order.
`Replay` sends them from another process, each with the correlation id of its request. After the
last Fetch with records it does not respond, as in a long poll.
"""

from __future__ import annotations

import pickle
import socket
import socketserver
import struct
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

SIZE = struct.Struct(">i")
REQUEST = struct.Struct(">hhi")  # API, version, number
FETCH = 1
READY_TIMEOUT_S = 20
Answers = dict[int, list[bytes]]
_CHILD = "from benchmarks.replay import serve; serve()"


class _Handler(socketserver.BaseRequestHandler):
    """One connection of a client; the server decides what happens to each request."""

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.serve_client(self.request)  # type: ignore[attr-defined]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class _Recorder(_Server):
    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.broker: tuple[str, int]
        self.answers: Answers = defaultdict(list)

    def serve_client(self, client: socket.socket) -> None:
        with socket.create_connection(self.broker) as upstream:
            keys: dict[int, int] = {}
            threading.Thread(target=self._answers, args=(upstream, client, keys), daemon=True).start()
            for frame in frames(client):
                key, _, number = REQUEST.unpack_from(frame)
                keys[number] = key
                upstream.sendall(SIZE.pack(len(frame)) + frame)

    def _answers(self, upstream: socket.socket, client: socket.socket, keys: dict[int, int]) -> None:
        for frame in frames(upstream):
            self.answers[keys[SIZE.unpack_from(frame)[0]]].append(frame[4:])
            client.sendall(SIZE.pack(len(frame)) + frame)


class _Replayer(_Server):
    def __init__(self, port: int, answers: Answers) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._left = {key: iter(responses) for key, responses in answers.items()}
        self._last: dict[int, bytes] = {}

    def serve_client(self, client: socket.socket) -> None:
        for frame in frames(client):
            key, _, number = REQUEST.unpack_from(frame)
            answer = next(self._left[key], None) if key in self._left else None
            if answer is None and key == FETCH:
                continue
            answer = self._last[key] if answer is None else answer
            self._last[key] = answer
            client.sendall(SIZE.pack(len(answer) + 4) + SIZE.pack(number) + answer)


@contextmanager
def record(port: int) -> Iterator[_Recorder]:
    """A proxy on `port`; set its `broker` before a client comes. Its `answers` are whole once the
    client has closed.
    """
    with _Recorder(port) as recorder:
        threading.Thread(target=recorder.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield recorder
        finally:
            recorder.shutdown()


class Replay:
    """Start a process that acts as the broker on `port` from `answers`."""

    def __init__(self, port: int, answers: Answers) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None, "it was started with a pipe"
        assert self._process.stdout is not None, "it was started with a pipe"
        pickle.dump((port, dict(answers)), self._process.stdin)
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the replay did not come up")

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def serve() -> None:
    """Run as the process of a `Replay`."""
    port, answers = pickle.load(sys.stdin.buffer)
    with _Replayer(port, answers) as replayer:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        replayer.serve_forever()


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Yield frames without their size until the peer closes."""
    with connection.makefile("rb") as file:
        while len(head := file.read(SIZE.size)) == SIZE.size:
            yield file.read(SIZE.unpack(head)[0])
