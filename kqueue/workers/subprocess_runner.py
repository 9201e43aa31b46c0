"""Runs the task of a `CpuJob` in a process of its own. The process runs `worker_main`."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.base.errors import JobCancelled, JobFailed, ProcessDied
from kqueue.workers.worker_plugins import dump_manifest

T = TypeVar("T")
# The process searches modules where this one does, but does not import the user's program, which
# would run it a second time.
_BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from kqueue.workers.worker_main import main; main()"
)


class SubprocessRunner:
    """The running processes. Thread: `run` is called by worker threads, `cancel` by any."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def run(self, task: Callable[[], T]) -> T:
        """Run the task in a process, and return its result. Blocks until it ends.

        Raises: what the task raises. JobFailed: it can't be pickled, or no process starts.
            ProcessDied: the process gave no result. JobCancelled.
        """
        try:
            request = pickle.dumps(sys.path) + pickle.dumps(dump_manifest()) + pickle.dumps(task)
        except Exception as error:  # pickle raises whatever the object does
            raise JobFailed(f"{task!r:.200} can't be sent to another process: {error}") from error
        process = self._start()
        try:
            reply = self._exchange(process, request)
        finally:
            with self._guard:
                self._running.discard(process)
        if self._cancelled:
            raise JobCancelled("the broker stops")
        result: T = self._result(reply, process)
        return result

    def cancel(self) -> None:
        """Kill all processes, and start no more. Each `run` raises JobCancelled."""
        with self._guard:
            self._cancelled = True
            for process in self._running:
                process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._guard:
            if self._cancelled:
                raise JobCancelled("the broker stops")
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            except (OSError, ValueError) as error:  # no interpreter, as in some embedded ones, or no memory
                raise JobFailed(f"can't start {sys.executable or 'a Python interpreter'}: {error}") from error
            self._running.add(process)
            return process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
        assert process.stdin is not None, "it was started with a pipe"
        assert process.stdout is not None, "it was started with a pipe"
        with process, contextlib.suppress(BrokenPipeError):
            # standard input stays open until the result arrives: the process ends when it closes
            process.stdin.write(request)
            process.stdin.flush()
            return process.stdout.read()
        return b""

    @staticmethod
    def _result(reply: bytes, process: subprocess.Popen[bytes]) -> Any:
        if not reply:
            raise ProcessDied(f"the process of a job {_end_of(process.returncode)} and gave no result")
        kind, value = pickle.loads(reply)
        if kind == "done":
            return value
        raise value


def _end_of(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = ", as the kernel does where memory is short," if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"
