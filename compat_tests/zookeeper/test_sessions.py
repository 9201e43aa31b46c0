"""Processes that are paused, and killed: what became of their sessions and terms."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from compat_tests.waits import eventually, read_line
from kqueue.base.errors import NodeIdInUse
from kqueue.metadata.zookeeper import ZookeeperStore

TIMEOUT_MS = 2500


@contextmanager
def broker(address: str, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Broker 1 in a process of its own; it has registered and is the controller."""
    command = [sys.executable, "-m", "compat_tests.zookeeper.paused_broker", address, "1", str(TIMEOUT_MS), *flags]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert read_line(process.stdout, "a registration") == "registered 1 1\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.communicate()


def commit(process: subprocess.Popen[str]) -> str:
    """Let it commit by its term and by its session, and return what became of both."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("x\n")
    process.stdin.flush()
    return read_line(process.stdout, "the outcome of two commits").strip()


@pytest.mark.parametrize("flags", [(), ("--unaware",)], ids=["aware", "unaware"])
def test_a_paused_process_has_lost_its_session_and_its_right_to_commit(address: str, flags: tuple[str, ...]) -> None:
    with closing(ZookeeperStore(address)) as store, broker(address, *flags) as process:
        assert commit(process) == "committed committed False"
        time.sleep(1.5 * TIMEOUT_MS / 1000)
        assert set(store.sessions()) == {1}, "it is kept alive"
        version = store.read("/")["/by-1"].version
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: not store.sessions(), "the session of a paused process ends")
        assert store.controller() is None
        process.send_signal(signal.SIGCONT)
        assert commit(process) == "SessionLost SessionLost True"
        assert commit(process) == "SessionLost SessionLost True"
        assert store.read("/")["/by-1"].version == version
        assert store.sessions() == {}, "kazoo has opened a session again, kqueue has not"


@pytest.mark.parametrize("flags", [(), ("--unaware",)], ids=["aware", "unaware"])
def test_a_paused_process_does_not_commit_in_the_name_of_its_successor(address: str, flags: tuple[str, ...]) -> None:
    with closing(ZookeeperStore(address)) as store, broker(address, *flags) as process:
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: not store.sessions(), "the session of a paused process ends")
        session = store.register(1, "successor", 60_000)
        term = store.campaign(session)
        assert term is not None
        assert (session.epoch, term.epoch) == (2, 2)
        process.send_signal(signal.SIGCONT)
        assert commit(process) == "SessionLost SessionLost True"
        assert dict(store.read("/")) == {}
        store.commit({}, {"/mine": b""}, [], by=term)
        session.keep_alive()


def test_a_short_pause_costs_nothing(address: str) -> None:
    with closing(ZookeeperStore(address)) as store, broker(address) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        process.send_signal(signal.SIGCONT)
        assert commit(process) == "committed committed False"
        assert set(store.sessions()) == {1}


def test_a_session_has_the_timeout_that_the_servers_grant(address: str) -> None:
    with closing(ZookeeperStore(address)) as store:
        assert store.register(1, "one", 150).timeout_ms == 200, "the least of `server.py`"
        assert store.register(2, "two", 3000).timeout_ms == 2250, "a quarter less than is asked for"
        assert store.register(3, "three", 600_000).timeout_ms == 60_000, "the most"


def test_a_killed_process_is_succeeded_after_its_timeout(address: str) -> None:
    with closing(ZookeeperStore(address)) as store, broker(address) as process:
        woken: list[float] = []
        stop = store.watch(lambda: woken.append(time.monotonic()))
        process.kill()
        killed = time.monotonic()
        with pytest.raises(NodeIdInUse, match="process-1"):
            store.register(1, "successor", 60_000)
        eventually(lambda: not store.sessions(), "the session of a killed process ends")
        eventually(lambda: bool(woken), "who watches hears of it")
        assert TIMEOUT_MS / 1000 * 0.5 < woken[0] - killed < TIMEOUT_MS / 1000 + 10
        stop()
        assert store.register(1, "successor", 60_000).epoch == 2
