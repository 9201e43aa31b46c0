from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kqueue.metadata import lock_holders
from kqueue.metadata.lock_holders import LockHolders, StuckWatch
from kqueue.metadata.sqlite import SqliteStore

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds holders of locks by /proc")


def test_a_process_that_is_no_committer_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holders, "STOPPED_S", 0.0)
    monkeypatch.setattr(lock_holders, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "kqueue.db"
    SqliteStore(path).close()
    program = (
        "import os, signal, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)]) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        holders = LockHolders(str(path))
        assert holders._holder() == process.pid
        for _ in range(3):
            holders.look()
        time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == 0
        assert holders._holder() is None


def test_a_stopped_process_is_stuck_and_a_running_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holders, "STOPPED_S", 0.0)
    watch = StuckWatch()
    assert not watch.is_stuck(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert watch.is_stuck(process.pid)
        process.kill()
    assert not watch.is_stuck(process.pid), "it has ended"
