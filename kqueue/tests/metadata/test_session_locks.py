"""Locks that end with their process."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.metadata import session_locks
from kqueue.metadata.session_locks import SessionLocks
from kqueue.tests.processes import started

pytestmark = pytest.mark.skipif(session_locks._SET is None, reason="a system without open file description locks")


def test_others_see_a_lock_until_it_is_released(tmp_path: Path) -> None:
    one, two = SessionLocks(str(tmp_path / "locks")), SessionLocks(str(tmp_path / "locks"))
    assert one.acquire(5)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o600
    assert [two.is_held(number) for number in (4, 5, 6)] == [False, True, False]
    assert not two.acquire(5)
    assert two.acquire(6)
    one.release(5)
    assert not two.is_held(5)
    assert one.is_held(6)
    two.close()
    two.close()
    assert not one.is_held(6)
    one.close()


def test_a_lock_ends_with_its_process_and_is_not_inherited(tmp_path: Path) -> None:
    path = tmp_path / "locks"
    code = (
        "import subprocess, sys\nfrom kqueue.metadata.session_locks import SessionLocks\n"
        "locks = SessionLocks(sys.argv[1])\nassert locks.acquire(7)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE, close_fds=False)\n"
        "print(child.pid, flush=True)\ninput()\n"
    )
    locks = SessionLocks(str(path))
    with started(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        assert locks.is_held(7)
        process.kill()
        process.wait()
        assert not locks.is_held(7)
    locks.close()


def test_without_a_file_or_the_systems_help_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    nowhere = str(tmp_path / "nowhere" / "locks")
    for path in (None, nowhere, str(tmp_path / "link")):
        locks = SessionLocks(path)
        assert not locks.acquire(1)
        assert locks.is_held(1)  # it may be
        locks.release(1)
        locks.close()
    monkeypatch.setattr(session_locks, "_SET", None)
    monkeypatch.setattr(session_locks, "_GET", None)
    locks = SessionLocks(str(tmp_path / "locks"))
    assert not locks.acquire(1)
    assert locks.is_held(1)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
