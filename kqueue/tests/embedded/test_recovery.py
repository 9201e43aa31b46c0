"""A broker that was killed starts again: over real files, threads and processes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kqueue
from kqueue.app import Server
from kqueue.broker.upkeep import log_recovery
from kqueue.client import EARLIEST, LATEST, Client, TopicPartition

KILLED = """
import os, signal, sys
import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.tests.test_app import batch
with kqueue.Broker(path=sys.argv[1]) as broker, Client(broker.bootstrap) as client:
    broker.create_topic("t", 3)
    for number in range(60):
        client.produce({TopicPartition("t", index): batch(b"%d" % number * 5000) for index in range(2)})
    client.produce({TopicPartition("t", 2): batch(b"small")})
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def left_by_a_kill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "data"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def killed(left_by_a_kill: Path, tmp_path: Path) -> Path:
    """The data folder of a broker that was killed, for one test."""
    return Path(shutil.copytree(left_by_a_kill, tmp_path / "data"))


@pytest.mark.parametrize("thread_bytes_max", [0, log_recovery.THREAD_BYTES_MAX])
def test_all_records_are_there_when_start_returns(
    killed: Path, thread_bytes_max: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_recovery, "THREAD_BYTES_MAX", thread_bytes_max)
    caplog.set_level("INFO")
    with kqueue.Broker(path=killed) as broker, Client(broker.bootstrap) as client:
        places = [TopicPartition("t", index) for index in range(3)]
        ends = client.offsets(dict.fromkeys(places, LATEST))
        assert [ends[place].offset for place in places] == [60, 60, 1]
        starts = client.offsets(dict.fromkeys(places, EARLIEST))
        assert [starts[place].offset for place in places] == [0, 0, 0]
        fetched = client.fetch({places[0]: 59})[places[0]]
        assert b"59" * 5000 in bytes(fetched.records)
    assert any("recovered 3 logs" in text and "0 failed" in text for text in caplog.messages)
    with kqueue.Broker(path=killed) as broker:
        assert "is not clean" not in caplog.text
        assert broker.is_running


@pytest.mark.long
def test_ctrl_c_during_recovery_ends_the_start_at_once(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: Server) -> None:
        await asyncio.Event().wait()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    broker = kqueue.Broker(path=killed)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Server, "ready", never)
            signal.setitimer(signal.ITIMER_REAL, 1)
            with pytest.raises(KeyboardInterrupt):
                broker.start()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not broker.is_running
    with broker, Client(broker.bootstrap) as client:
        place = TopicPartition("t", 2)
        assert client.offsets({place: LATEST})[place].offset == 1
