"""Runs the task of a `CpuJob` in a process of its own, which is there for this one task. What runs
in it is `worker`.
"""

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
from kqueue.workers.worker_plugins import pack

T = TypeVar("T")
# The process finds modules where this one does, but imports nothing of the user's program: that
# would run it a second time.
_BEGIN = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from kqueue.workers.worker_main import main; main()"


class SubprocessRunner:
    """The processes that are under way. `run` is called by threads, `cancel` by whoever stops them
    all.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def run(self, task: Callable[[], T]) -> T:
        """The task's result. Blocks until it is there.

        Raises: what the task raises. JobFailed: it can't be sent to another process. ProcessDied.
        JobCancelled.
        """
        try:
            asked = pickle.dumps(sys.path) + pickle.dumps(pack()) + pickle.dumps(task)
        except Exception as error:  # pickle raises whatever the object does
            raise JobFailed(f"{task!r:.200} can't be sent to another process: {error}") from error
        process = self._start()
        try:
            answer = self._ask(process, asked)
        finally:
            with self._guard:
                self._running.discard(process)
        if self._cancelled:
            raise JobCancelled("the broker stops")
        result: T = self._result(answer, process)
        return result

    def cancel(self) -> None:
        """End all processes, and start no more; who waits for one hears JobCancelled."""
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
            except (OSError, ValueError) as error:  # no interpreter of its own, as in some embedded ones, or no memory
                raise JobFailed(f"can't start {sys.executable or 'a Python interpreter'}: {error}") from error
            self._running.add(process)
            return process

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], asked: bytes) -> bytes:
        assert process.stdin is not None, "it was started with a pipe"
        assert process.stdout is not None, "it was started with a pipe"
        with process, contextlib.suppress(BrokenPipeError):
            # standard input stays open until the answer is there: that tells the process that
            # somebody waits for it
            process.stdin.write(asked)
            process.stdin.flush()
            return process.stdout.read()
        return b""

    @staticmethod
    def _result(answer: bytes, process: subprocess.Popen[bytes]) -> Any:
        if not answer:
            raise ProcessDied(f"the process of a job {_end_of(process.returncode)} and gave no result")
        kind, value = pickle.loads(answer)
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
