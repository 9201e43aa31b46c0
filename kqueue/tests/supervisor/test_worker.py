from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import cast

import psutil
import pytest

from kqueue.supervisor.worker import Worker, follow_supervisor
from kqueue.tests.supervisor.served_workers import serving
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually


@pytest.mark.long
def test_no_worker_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with serving(tmp_path, 2, "--topic", "orders:2") as served:
        served.wait_for("created topic orders")
        workers = served.workers()
        assert len(workers) == 2
        assert served.end(signal.SIGKILL) == -signal.SIGKILL
        eventually(lambda: not any(psutil.pid_exists(worker.pid) for worker in workers.values()))
    for folder in (tmp_path, tmp_path / "workers" / "1"):
        assert (folder / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_a_worker_leaves_ctrl_c_to_the_supervisor(tmp_path: Path) -> None:
    with serving(tmp_path, 1) as served:
        assert served.bootstrap
        worker = served.workers()[0]
        worker.send_signal(signal.SIGINT)
        assert served.end(signal.SIGINT) == 130
        assert not [line for line in served.log if "started again" in line]


class StopAsked(Exception):
    pass


class StoppingWorker:
    """Raises where a worker stops: what comes after ends the process."""

    def stop(self) -> None:
        raise StopAsked


@for_each("unread", [b"", b'"ready"\n'])
@for_each("said", [b"", b'"op'])
def test_a_worker_stops_however_its_supervisor_has_died(said: bytes, unread: bytes) -> None:
    supervisor, channel = socket.socketpair()
    with channel, channel.makefile("rb") as lines:
        supervisor.sendall(said)
        channel.sendall(unread)
        supervisor.close()
        with pytest.raises(StopAsked):
            follow_supervisor(lines, cast(Worker, StoppingWorker()), 0)
