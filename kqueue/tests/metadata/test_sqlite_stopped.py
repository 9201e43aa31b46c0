"""A broker, its committer or both are stopped before each statement of what they do to a store.

`cluster_tests/test_stopped_commits.py` does the same at each system call.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, suppress
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from kqueue.tests.metadata.shared_clock import SharedClock
from kqueue.tests.metadata.stopped_committer import open_on_shared_clock, stop_file
from kqueue.tests.metadata.store_process import StoreProcess, store_process
from kqueue.tests.thorough import corners
from kqueue.tests.waits import HangLimit

SESSION_MS = 9_000
LONG_MS = 600_000_000
CALLS: dict[str, list[object]] = {
    "commit": ["commit", {}, {"/a": "new", "/b": "new"}],
    "keep_alive": ["keep_alive"],
    "campaign": ["campaign"],
    "register": ["register", 1, "one", SESSION_MS],
}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds holders of locks by /proc")


def stop_or_answer(other: StoreProcess, path: Path) -> bool:
    """Wait until the stop has happened, or the call was answered; return whether it was stopped."""
    limit = HangLimit("the stop, or the answer")
    while stop_file(path).exists():
        limit.check()
        assert other.process.stdout is not None
        if wait([other.process.stdout], 0):  # not select(), which refuses large descriptors
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("whom", "call"),
    corners([*(("both", call) for call in CALLS), ("broker", "commit"), ("committer", "commit")], ("both", "commit")),
)
def test_others_commit_and_elect_wherever_a_broker_is_stopped(tmp_path: Path, whom: str, call: str) -> None:
    path, clock = tmp_path / "kqueue.db", SharedClock(tmp_path / "clock")
    patience_s = 0.1 if whom == "committer" else LONG_MS  # of a broker that runs
    with closing(open_on_shared_clock(path, clock)) as store, store_process(path, clock, patience_s) as other:
        own = store.register(2, "two", LONG_MS)
        statements = 0
        while True:
            other.call("register", 1, "one", SESSION_MS)
            assert isinstance(other.call("campaign"), int)
            other.call("commit", {}, {"/a": "old", "/b": "old"})
            committer = other.call("committer")
            stop_file(path).write_text(f"{statements + 1} {whom}")
            other.send(*CALLS[call])
            if not stop_or_answer(other, path):
                break
            statements += 1
            if whom != "committer":
                other.wait_until_stopped()
            store.commit({}, {"/c": b"%d" % statements}, [])
            own.keep_alive()
            clock.advance(SESSION_MS)
            assert store.sessions().keys() == {2}, "the session of the stopped broker has ended, the other has not"
            term = store.campaign(own)
            assert term is not None
            with suppress(ProcessLookupError):  # it was killed
                os.kill(committer, signal.SIGCONT)
            if whom != "committer":
                other.resume()
            answer = other.answer()
            values = {key: entry.value for key, entry in store.read("/").items()}
            assert values["/a"] == values["/b"], "a commit happens whole or not at all"
            store.commit({}, {"/d": b""}, [], by=term)
            if isinstance(answer, dict):
                assert values["/a"] == b"new"
            elif call != "register":  # of which the answer may be a new epoch
                assert answer is None or answer[1] in ("SessionLost", "StorageFailed")
                assert answer is None or answer[1] == "StorageFailed" or values["/a"] == b"old"
            if whom != "committer" and call != "register":
                assert other.call("commit", {}, {"/a": "late"})[1] == "SessionLost"
            term.resign()
        stop_file(path).unlink()
        assert other.answer() is None or statements
        assert statements >= 4
