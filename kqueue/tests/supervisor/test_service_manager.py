from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.supervisor.service_manager import ServiceManager
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.tables import for_each

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(60)
        yield bound


def told(listening: socket.socket) -> str:
    return listening.recv(1000).decode()


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--workers", "1")])
def test_it_is_told_when_kqueue_serves_and_when_it_stops(
    listening: socket.socket, tmp_path: Path, more: tuple[str, ...]
) -> None:
    environment = process_environment(
        NOTIFY_SOCKET=listening.getsockname(), KQUEUE_LISTENERS="PLAINTEXT://127.0.0.1:0", KQUEUE_LOG_DIRS=str(tmp_path)
    )
    command = [sys.executable, "-m", "kqueue.cli", "serve", *more]
    with started(command, env=environment, stderr=subprocess.DEVNULL) as process:
        assert told(listening) == "READY=1"
        process.send_signal(signal.SIGTERM)
        assert told(listening) == "STOPPING=1"
        process.wait(60)


def test_signs_of_life_come_while_the_loop_runs(listening: socket.socket) -> None:
    async def serve() -> list[str]:
        manager = ServiceManager({"NOTIFY_SOCKET": listening.getsockname(), "WATCHDOG_USEC": "2000"})
        with manager.serving():
            got = [await asyncio.to_thread(told, listening) for _ in range(4)]
        manager.close()
        return got

    assert asyncio.run(serve()) == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]


@for_each(
    "environment, sign_s",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_signs_of_life_come_twice_as_often_as_they_are_waited_for(
    environment: dict[str, str], sign_s: float | None
) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/run/notify", **environment})._sign_s == sign_s


def test_a_manager_that_has_gone_is_told_of_in_a_line(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def serve() -> None:
        with ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "none")}).serving():
            pass

    asyncio.run(serve())
    assert "was not told READY=1: No such file or directory" in caplog.text


def test_without_the_variable_nothing_is_told() -> None:
    async def serve() -> None:
        with ServiceManager({"WATCHDOG_USEC": "1000"}).serving():
            await asyncio.sleep(0.01)

    asyncio.run(serve())
