"""A broker's process, or its committer, is stopped at each system call of what it does to a store.

`strace` injects the SIGSTOP, so each call is met exactly once. The others commit and elect a
controller meanwhile, by a clock that stands still: they wait for no timeout but the session's.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compat_tests.waits import HangLimit, read_line
from kqueue.tests.metadata.shared_clock import SharedClock
from kqueue.tests.metadata.stopped_committer import open_on_shared_clock
from kqueue.tests.metadata.store_process import StoreProcess, store_process

SESSION_MS = 9_000
LONG_MS = 600_000_000
TRIES = 3
STOPPED = "--- stopped by SIGSTOP ---"
"""A line of strace. The state of the process does not tell: strace stops it at each call."""
CALLS: dict[str, list[object]] = {"commit": ["commit", {}, {"/a": "new", "/b": "new"}], "keep_alive": ["keep_alive"]}

pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (a package of Debian)"),
]


@contextlib.contextmanager
def traced(pid: int, output: Path, *options: str) -> Iterator[None]:
    """Let strace follow a process."""
    strace = subprocess.Popen(
        ["strace", "-p", str(pid), "-o", str(output), *options], stderr=subprocess.PIPE, text=True
    )
    try:
        assert strace.stderr is not None
        line = read_line(strace.stderr, "a line of strace")
        if "attached" not in line:
            pytest.skip(f"strace can't attach to a process here: {line}")
        yield
    finally:
        strace.terminate()
        strace.communicate()


def system_calls(lines: list[str]) -> list[tuple[str, int]]:
    """Return the name of each system call, and which one of that name it is: strace counts so."""
    counts: Counter[str] = Counter()
    calls = []
    for line in lines:
        if match := re.match(r"(\w+)\(", line):
            counts[match[1]] += 1
            calls.append((match[1], counts[match[1]]))
    return calls


def one_of_each(calls: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the middle call of each name: of the locks, one while others are held."""
    counts = Counter(name for name, _ in calls)
    return [(name, (count + 1) // 2) for name, count in counts.items()]


def stopped_or_answered(output: Path, other: StoreProcess) -> bool:
    """Wait until strace has stopped the process, or the call is answered; return whether it was
    stopped.
    """
    limit = HangLimit("a stop, or an answer")
    while STOPPED not in (lines := output.read_text()):
        limit.check(lines)
        assert other.process.stdout is not None
        if select.select([other.process.stdout], [], [], 0.005)[0]:
            return False
    return True


@pytest.mark.parametrize("choose", [one_of_each, pytest.param(list, id="all", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("whom", ["committer", "broker"])
@pytest.mark.parametrize("call", CALLS)
def test_others_commit_and_elect_at_whatever_system_call_a_broker_is_stopped(
    tmp_path: Path, call: str, whom: str, choose: Callable[[list[tuple[str, int]]], list[tuple[str, int]]]
) -> None:
    path, clock = tmp_path / "kqueue.db", SharedClock(tmp_path / "clock")
    with closing(open_on_shared_clock(path, clock)) as store, store_process(path, clock, LONG_MS) as other:
        own = store.register(2, "two", LONG_MS)

        def begin() -> tuple[int, int]:
            """Let the other broker be the controller; return its committer, and whom to stop."""
            other.call("register", 1, "one", SESSION_MS)
            assert isinstance(other.call("campaign"), int)
            other.call("commit", {}, {"/a": "old", "/b": "old"})
            committer = other.call("committer")
            return committer, committer if whom == "committer" else other.process.pid

        output = tmp_path / "strace.txt"
        runs: list[list[tuple[str, int]]] = []
        limit = HangLimit(f"system calls of {TRIES} runs")
        while len(runs) < TRIES:
            limit.check(runs)
            _, pid = begin()
            with traced(pid, output):
                other.call(*CALLS[call])
            runs += filter(None, [system_calls(output.read_text().splitlines())])
        points = choose(min(runs, key=len))  # without calls that a slow machine repeats
        stopped: list[tuple[str, int]] = []
        for name, count in (point for point in points for _ in range(TRIES)):
            if (name, count) in stopped:
                continue  # at the first try, mostly
            committer, pid = begin()
            with traced(pid, output, "-e", f"inject={name}:signal=STOP:when={count}"):
                other.send(*CALLS[call])
                was_stopped = stopped_or_answered(output, other)
                if was_stopped:
                    stopped.append((name, count))
                    other.process.send_signal(signal.SIGSTOP)
                    store.commit({}, {"/c": b"1"}, [])
                    own.keep_alive()
                clock.advance(SESSION_MS)
                assert store.sessions().keys() == {2}
                term = store.campaign(own)
                assert term is not None
            with contextlib.suppress(ProcessLookupError):  # it was killed
                os.kill(committer, signal.SIGCONT)
            other.resume()
            answer = other.answer()
            if not was_stopped:  # the call was over when strace had begun, or gave the answer
                term.resign()
                continue
            values = {key: entry.value for key, entry in store.read("/").items()}
            assert values["/a"] == values["/b"], "a commit happens whole or not at all"
            if isinstance(answer, dict):
                assert values["/a"] == b"new"
            elif answer is not None:
                assert answer[1] in ("SessionLost", "StorageFailed")
                assert answer[1] == "StorageFailed" or values["/a"] == b"old"
            assert other.call("commit", {}, {"/a": "late"})[1] == "SessionLost"
            store.commit({}, {"/d": b""}, [], by=term)
            term.resign()
        missed = [point for point in points if point not in stopped]
        print(f"{call}, {whom}: stopped at {len(stopped)} of {len(points)} system calls; not at {missed}")
        if choose is list:
            assert len(stopped) >= len(points) - 3, missed
            assert len(stopped) >= (2 if whom == "broker" else 15)
        else:  # a short call is over before strace has begun, on a busy machine most times
            assert len(stopped) >= max(2, len(points) // 2), missed
