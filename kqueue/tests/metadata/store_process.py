"""A broker's store in a process of its own, which a test can kill and stop.

    python -m kqueue.tests.metadata.store_process PATH [CLOCK [PATIENCE_S]]

With CLOCK, the file of a `SharedClock`, its committer stops where `stopped_committer` says. After
PATIENCE_S it kills a committer that is stopped.

Reads one JSON list per line, ``[method, *arguments]``, and answers each with one line: the result,
or ``["error", type, message]``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kqueue.base.errors import Conflict, KqueueError
from kqueue.metadata import lock_holders, sqlite_committer
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_sessions import SqliteSession, SqliteTerm
from kqueue.tests.metadata.shared_clock import SharedClock
from kqueue.tests.metadata.stopped_committer import open_on_shared_clock


class StoreProcess:
    """The test's side."""

    def __init__(self, path: Path, clock: SharedClock | None = None, patience_s: float | None = None) -> None:
        given = (path, clock and clock.path, patience_s)
        arguments = [str(one) for one in given if one is not None]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, *call: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def wait_until_stopped(self) -> None:
        """Wait until the process is stopped; `resume` ends that."""
        pid, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert (pid, os.WIFSTOPPED(status)) == (self.process.pid, True)

    def resume(self) -> None:
        """Let the process go on, which then answers."""
        self.process.send_signal(signal.SIGCONT)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        return json.loads(line)

    def call(self, *call: object) -> Any:
        self.send(*call)
        return self.answer()


@contextmanager
def store_process(
    path: Path, clock: SharedClock | None = None, patience_s: float | None = None
) -> Iterator[StoreProcess]:
    """Run a process, and kill it in the end."""
    process = StoreProcess(path, clock, patience_s)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


class _Calls:
    """The process's side: a method for each call."""

    def __init__(self, path: str, clock: str | None = None, patience_s: str | None = None) -> None:
        if patience_s is not None:
            lock_holders.STOPPED_S = sqlite_committer.CALL_TIMEOUT_S = float(patience_s)
        if clock is None:
            self.store = SqliteStore(path)
        else:
            self.store = open_on_shared_clock(Path(path), SharedClock(Path(clock)), can_stop=True)
        self.session: SqliteSession | None = None
        self.term: SqliteTerm | None = None

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> int:
        self.session = self.store.register(node_id, incarnation, timeout_ms)
        return self.session.epoch

    def campaign(self) -> int | None:
        assert self.session is not None
        self.term = self.store.campaign(self.session)
        return None if self.term is None else self.term.epoch

    def committer(self) -> int | None:
        """Return the process that commits."""
        return self.store._committer and self.store._committer.pid

    def keep_alive(self) -> None:
        assert self.session is not None
        self.session.keep_alive()

    def commit(self, guards: dict[str, int | None], puts: dict[str, str]) -> dict[str, int]:
        values = {key: value.encode() for key, value in puts.items()}
        return dict(self.store.commit(guards, values, [], by=self.term or self.session))

    def lost(self) -> bool:
        assert self.session is not None
        return self.session.lost

    def sessions(self) -> list[int]:
        return list(self.store.sessions())

    def count(self, times: int) -> int:
        """Increment ``/n``; return the conflicts."""
        conflicts = 0
        for _ in range(times):
            while True:
                entry = self.store.read("/n")["/n"]
                try:
                    self.store.commit({"/n": entry.version}, {"/n": b"%d" % (int(entry.value) + 1)}, [])
                except Conflict:
                    conflicts += 1
                    continue
                break
        return conflicts

    def put_forever(self) -> None:
        number = 0
        while True:
            number += 1
            self.store.commit({}, {"/a": b"%d" % number, "/b": b"%d" % number}, [])
            print(number, flush=True)


def main() -> None:
    """Answer calls until the input ends."""
    calls = _Calls(*sys.argv[1:])
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            answer = getattr(calls, method)(*arguments)
        except KqueueError as error:
            answer = ["error", type(error).__name__, str(error)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
