"""A process that makes the commits of one broker to an SQLite store that several share.

A process that is stopped keeps the locks that it holds. If brokers made their commits themselves,
one that hangs in a commit would hold up the commits, the signs of life and the elections of all
others. A committer holds the lock for milliseconds, whatever happens to its broker: it waits for
requests without a lock, and does a transaction without its broker. A committer that is stopped
itself is killed, by its broker or by another committer that waits for its lock (`lock_holders`).

1. It starts with the first session of a store (`SqliteStore.register`), in a session of the
   operating system of its own: Ctrl-C and Ctrl-Z of a terminal do not reach it.
2. A request is one frame on its standard input, the answer one on its standard output.
3. It shares the open file that holds the locks of sessions. So a session's lock is released when
   both have ended, and a committer ends when its broker does.
4. When it dies, the outcome of its request is unknown, the caller gets StorageFailed, and the next
   request starts another one.

It imports the modules that it needs and no package (`_BEGIN`): half the memory and a fifth of the
time.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.metadata.lock_holders import COMMITTER_MARK, StuckWatch, is_stopped

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 20.0
"""Longer than a committer waits for the lock (`sqlite.BUSY_TIMEOUT_S`), and for its disk beyond."""
END_TIMEOUT_S = 5.0
POLL_S = 0.1
LENGTH = struct.Struct(">I")
READ_BYTES = 1 << 16
# Packages without their `__init__`, whose imports a committer does not need.
_BEGIN = """
import sys, types
folder = sys.argv[2]
for name in ("kqueue", "kqueue.base", "kqueue.metadata"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = ["/".join([folder, *name.split(".")[1:]])]
from kqueue.metadata.committer_main import main
main(*sys.argv[3:])
"""


class CommitterUnavailable(Exception):
    """No committer can be started here."""


class _Died(Exception):
    """The committer has ended. `sent`: it may have got the request."""

    def __init__(self, sent: bool) -> None:
        super().__init__(sent)
        self.sent = sent


class CommitterProcess:
    """The committer of one store; it is started again when it has ended.

    Args:
        lock_fd: the open file with the locks of sessions; None: there are no locks.
        begin: the program of the process.
    Thread: any; one request at a time.
    Raises: CommitterUnavailable.
    """

    def __init__(self, path: str, lock_fd: int | None, begin: str = _BEGIN) -> None:
        self._path = str(Path(path).absolute())
        self._lock_fd = lock_fd
        self._begin = begin
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = self._start()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The process; None: it has ended."""
        process = self._process
        return None if process is None else process.pid

    def call(self, name: str, *arguments: object) -> Any:
        """Return what the committer answers. Blocks.

        Raises: what the call raises. StorageFailed: the committer died, or does not answer; it is
            dead then, so what it has not done does not happen later.
        """
        request = pickle.dumps((name, arguments))
        frame = LENGTH.pack(len(request)) + request
        with self._lock:
            # Once more with a new process, but only where the first one can't have carried the
            # request out.
            for is_last in (False, True):
                try:
                    is_done, result = pickle.loads(self._exchange(self._running(), frame))
                except _Died as error:
                    self._discard()
                    if is_last or error.sent:
                        raise StorageFailed(
                            f"the process that commits to the metadata store {self._path} was stopped or killed; "
                            "it is unknown whether the change was made"
                        ) from None
                except CommitterUnavailable as error:
                    raise StorageFailed(f"could not write to the metadata store {self._path}: {error}") from error
                else:
                    if not is_done:
                        raise result
                    return result
            raise AssertionError("unreachable")

    def close(self) -> None:
        """End the process. A second call has no effect; `call` then raises StorageFailed."""
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is not None:
                assert process.stdin is not None
                with contextlib.suppress(OSError):
                    process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END_TIMEOUT_S if not is_stopped(process.pid) else 0)
                self._discard()

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, after starting one where it has ended or is stopped."""
        if self._is_closed:
            raise StorageFailed(f"the metadata store {self._path} is closed")
        process = self._process
        if process is not None and (process.poll() is not None or is_stopped(process.pid)):
            self._discard()
        if self._process is None:
            self._process = self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        folder = str(Path(__file__).parents[1])
        if getattr(sys, "frozen", False) or not sys.executable:
            raise CommitterUnavailable("there is no Python interpreter to start")
        fds = () if self._lock_fd is None else (self._lock_fd,)
        command = [sys.executable, "-I", "-S", "-c", self._begin, COMMITTER_MARK, folder, self._path]
        try:
            process = subprocess.Popen(
                [*command, *map(str, fds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=fds,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise CommitterUnavailable(f"can't start {sys.executable}: {error}") from error
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        try:
            is_done, result = pickle.loads(self._read_frame(process, monotonic_s() + START_TIMEOUT_S))
        except _Died:
            _end(process)
            raise CommitterUnavailable(f"{sys.executable} ended before it had opened the file") from None
        if not is_done:
            _end(process)
            raise result
        return process

    def _exchange(self, process: subprocess.Popen[bytes], frame: bytes) -> bytes:
        deadline_s = monotonic_s() + CALL_TIMEOUT_S
        assert process.stdin is not None
        fd, rest = process.stdin.fileno(), memoryview(frame)
        watch = StuckWatch()
        while rest:
            self._wait(process, fd, select.POLLOUT, deadline_s, watch, sent=False)
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                continue
            # A committer reads a request whole before it begins, so a part of one has no effect.
            except OSError:  # it has closed its end
                raise _Died(sent=False) from None
        return self._read_frame(process, deadline_s)

    def _read_frame(self, process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
        assert process.stdout is not None
        fd, data, watch = process.stdout.fileno(), bytearray(), StuckWatch()
        while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
            self._wait(process, fd, select.POLLIN, deadline_s, watch, sent=True)
            try:
                read = os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            if not read:
                raise _Died(sent=True)
            data += read
        return bytes(data[LENGTH.size :])

    @staticmethod
    def _wait(
        process: subprocess.Popen[bytes], fd: int, event: int, deadline_s: float, watch: StuckWatch, *, sent: bool
    ) -> None:
        """Wait until the pipe is ready. Raises: _Died: the process is stuck, or time is over."""
        poll = select.poll()
        poll.register(fd, event)
        while not poll.poll(POLL_S * 1000):
            if watch.is_stuck(process.pid) or monotonic_s() >= deadline_s:
                raise _Died(sent)

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and wait until it is gone: it does nothing any more."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
