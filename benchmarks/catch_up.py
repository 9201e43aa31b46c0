"""Consumers that read an old log again and again as fast as they can, in a process of their own."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from benchmarks import frames
from benchmarks.frames import Connection

FETCH_BYTES = 2**20


class CatchUpReaders:
    """Readers of partition 0 of a topic. Use as a context manager; `megabytes_per_s` of all of them
    after it.
    """

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.catch_up", bootstrap, topic, str(count)]
        self._count = count
        self._process: subprocess.Popen[str] | None = None
        self.megabytes_per_s = 0.0

    def __enter__(self) -> Self:
        if self._count:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            self._process.stdout.readline()  # they have begun
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.megabytes_per_s = float(self._process.communicate("stop\n")[0])


def read(bootstrap: str, topic: str, count: int) -> None:
    """Read until a line arrives; then print the MB/s."""
    end = frames.end_offset(bootstrap, topic)
    batch_records = 1_000
    request = [frames.fetch_frame(topic, offset, max_bytes=FETCH_BYTES) for offset in range(0, end, batch_records)]
    room = bytearray(1 << 20)
    total = 0
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        at = {}
        for number in range(count):
            connection = opened.enter_context(Connection(bootstrap))
            at[connection] = number * len(request) // count
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.socket.sendall(request[at[connection]])
        print("begun", flush=True)
        began = time.monotonic()
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    print(total / 1e6 / (time.monotonic() - began))
                    return
                left = int.from_bytes(key.data.read_exactly(4))
                total += left
                while left:
                    left -= key.data.socket.recv_into(room, min(left, len(room)))
                at[key.data] = (at[key.data] + 1) % len(request)
                key.data.socket.sendall(request[at[key.data]])


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], int(sys.argv[3]))
