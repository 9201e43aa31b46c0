"""Meters of what a request costs, in figures that no machine changes.

    calls          calls of Python functions, of C functions, and system calls, by `sys.setprofile`
    instructions   of the interpreter, by `sys.settrace`
    memory         bytes allocated at once, and blocks that are not freed, by `tracemalloc`

Threads of jobs are counted too. A process has one meter at a time.
"""

from __future__ import annotations

import gc
import select
import socket
import sys
import threading
import tracemalloc
from collections import Counter
from types import BuiltinFunctionType, FrameType
from typing import Any

Counts = dict[str, float]
PYTHON_CALLS, C_CALLS, INSTRUCTIONS = "Python calls", "C calls", "instructions"
SYSTEM_CALLS, PEAK, LEFT = "system calls", "bytes at once", "blocks left"
SYSTEM_MODULES = ("posix", "nt", "_posixsubprocess")
SYSTEM_OBJECTS = (socket.SocketType, getattr(select, "epoll", socket.SocketType))
NO_SYSTEM_CALLS = {"fileno", "fspath", "gettimeout", "fsencode", "get_inheritable"}
OWN_FILES = ("counts.py", "stepped.py")


class Meter:
    """Counts between `begin` and `end`, of the thread that made it only between `resume` and
    `pause`; see `stepped.Meter`.
    """

    def __init__(self) -> None:
        self._is_begun = self._is_counting = False
        self._thread = threading.get_ident()

    def begin(self) -> None:
        """Count from the next `resume` on."""
        gc.collect()
        self._is_begun = True

    def end(self) -> None:
        """Count no more."""
        self._is_begun = False

    def pause(self) -> None:
        self._is_counting = False

    def resume(self) -> None:
        self._is_counting = self._is_begun

    def counts(self, requests: int) -> Counts:
        """Return what was counted, for each of `requests`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Remove what counts from the interpreter."""


class CallMeter(Meter):
    """Counts calls of functions. `futex` is not among the system calls: its number depends on which
    thread runs first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counter: Counter[str] = Counter()
        threading.setprofile(self._of_job)
        sys.setprofile(self._of_loop)

    def _of_loop(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._is_counting:
            self._count(frame, event, argument)

    def _of_job(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._is_begun:
            self._count(frame, event, argument)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            if not frame.f_code.co_filename.endswith(OWN_FILES):
                self._counter[PYTHON_CALLS] += 1
        elif event == "c_call" and not frame.f_code.co_filename.endswith(OWN_FILES):
            self._counter[C_CALLS] += 1
            if _is_system_call(argument):
                self._counter[argument.__name__] += 1

    def counts(self, requests: int) -> Counts:
        return {name: count / requests for name, count in self._counter.items()}

    def stop(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)


def _is_system_call(function: BuiltinFunctionType) -> bool:
    if function.__name__ in NO_SYSTEM_CALLS:
        return False
    return function.__module__ in SYSTEM_MODULES or isinstance(function.__self__, SYSTEM_OBJECTS)


class InstructionMeter(Meter):
    """Counts the instructions of the interpreter ("opcodes") that are run."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        # Python 3.12 traces instructions only if a frame wants it when the function is set.
        sys._getframe().f_trace_opcodes = True
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._is_begun or frame.f_code.co_filename.endswith(OWN_FILES):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._of_loop if threading.get_ident() == self._thread else self._of_job

    def _of_loop(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and self._is_counting:
            self._count += 1
        return self._of_loop

    def _of_job(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and self._is_begun:
            self._count += 1
        return self._of_job

    def counts(self, requests: int) -> Counts:
        return {INSTRUCTIONS: self._count / requests}

    def stop(self) -> None:
        threading.settrace(None)
        sys.settrace(None)


class MemoryMeter(Meter):
    """Measures the greatest growth of memory while the loop runs, and the blocks that are not freed
    at the end. Copies of large records are in the former.

    Python has no count of allocations: a block that is freed at once is in neither.
    """

    def __init__(self) -> None:
        super().__init__()
        self._peak = self._base = 0
        self._blocks = 0
        tracemalloc.start()

    def begin(self) -> None:
        super().begin()
        gc.disable()  # what only the collector would free is left
        self._base = tracemalloc.get_traced_memory()[0]
        self._blocks = sys.getallocatedblocks()

    def pause(self) -> None:
        if self._is_counting:
            self._peak = max(self._peak, tracemalloc.get_traced_memory()[1] - self._base)
        super().pause()

    def resume(self) -> None:
        tracemalloc.reset_peak()
        super().resume()

    def end(self) -> None:
        self._blocks = sys.getallocatedblocks() - self._blocks
        gc.enable()
        super().end()

    def counts(self, requests: int) -> Counts:
        return {PEAK: self._peak, LEFT: self._blocks / requests}

    def stop(self) -> None:
        tracemalloc.stop()
