"""Committers on a `SharedClock` that stop themselves, their broker or both at a chosen statement.

They read from the file `<store>.stop` what to do: ``<number of the statement> <whom>``, where whom
is ``committer``, ``broker`` or ``both``; the file is gone when it is done.
"""

from __future__ import annotations

import functools
from pathlib import Path

from kqueue.metadata import sqlite_committer
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.sqlite_committer import CommitterProcess
from kqueue.tests.metadata.shared_clock import SharedClock

STUCK_S = 0.05  # in place of half a second
_HOOKS = """
import os, signal, struct
from kqueue.metadata import lock_holders, sqlite

class SharedClock:
    def __init__(self):
        self.fd = os.open(CLOCK, os.O_RDONLY)

    def monotonic_ms(self):
        return struct.unpack("d", os.pread(self.fd, 8, 0))[0]

    def wall_ms(self):
        return int(self.monotonic_ms())

def trace(statement):
    try:
        with open(STOP) as file:
            number, whom = file.read().split()
    except FileNotFoundError:
        return
    if int(number) > 1:
        with open(STOP + ".new", "w") as file:
            file.write(f"{int(number) - 1} {whom}")
        os.rename(STOP + ".new", STOP)
        return
    os.unlink(STOP)
    for pid in {"committer": [os.getpid()], "broker": [os.getppid()], "both": [os.getppid(), os.getpid()]}[whom]:
        os.kill(pid, signal.SIGSTOP)

def connect(self, connect=sqlite.SqliteStore._connect):
    db = connect(self)
    db.set_trace_callback(trace)
    return db

lock_holders.STOPPED_S = STUCK_S
sqlite.SystemClock = SharedClock
sqlite.SqliteStore._connect = connect
"""


def stop_file(path: Path) -> Path:
    """Return where to write what committers of the store at `path` do."""
    return Path(f"{path}.stop")


def open_on_shared_clock(path: Path, clock: SharedClock, *, can_stop: bool = False) -> SqliteStore:
    """Open a store whose committer reads `clock`. `can_stop`: it also reads `stop_file`."""
    stop = str(stop_file(path)) if can_stop else ""
    values = f"CLOCK, STOP, STUCK_S = {str(clock.path)!r}, {stop!r}, {STUCK_S}\n"
    last = "from kqueue.metadata.committer_main import main"
    begin = sqlite_committer._BEGIN.replace(last, values + _HOOKS + last)
    return SqliteStore(path, clock=clock, start_committer=functools.partial(CommitterProcess, begin=begin))
