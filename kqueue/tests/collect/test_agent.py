"""The agent's loop with a real tailer and state file, and a sender without a broker."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kqueue.collect.agent import AgentOptions, CollectAgent, resume
from kqueue.collect.file_tailer import FileTailer
from kqueue.collect.resume_dedup import DeliveredLine
from kqueue.collect.tailed_file import Line
from kqueue.tests.collect.tailer_harness import UnsyncedState


class Sender:
    """Confirms `confirmed` calls, then none; checks that positions are saved after confirmation."""

    def __init__(self, confirmed: int = 1_000_000) -> None:
        self.confirmed = confirmed
        self.values: list[bytes] = []
        self.ends = {0: 0}

    @property
    def sent(self) -> int:
        return len(self.values)

    def send(self, lines: list[Line]) -> bool:
        if not self.confirmed:
            return False
        self.confirmed -= 1
        self.values += [line.value for line in lines]
        self.ends[0] += len(lines)
        return True


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\ntwo\nthree\n")
    return log


def agent(log: Path, sender: Any, *, lines_max: int = 100, **more: Any) -> tuple[CollectAgent, UnsyncedState]:
    file = UnsyncedState(log.parent / "state.json", "logs")
    tailer = FileTailer(
        [str(log)], line_bytes_max=64, partial_s=10.0, now_s=lambda: 0.0, new_source=lambda: "s1", ignored=file.names()
    )
    resume(tailer, file)
    options = AgentOptions(interval_s=0.01, lines_max=lines_max, once=True)
    return CollectAgent(tailer, sender, file, options, stop=threading.Event(), **more), file


def offsets(file: UnsyncedState) -> list[int]:
    state = file.load()
    assert state is not None
    return [position.print.offset for position in state.positions]


def test_once_sends_all_and_saves_the_end(log: Path) -> None:
    sender, shown = Sender(), []
    runner, file = agent(log, sender, lines_max=2, show=shown.append)
    assert runner.run()
    assert sender.values == [b"one", b"two", b"three"]
    assert offsets(file) == [14]
    state = file.load()
    assert state is not None
    assert (state.stopped, dict(state.ends)) == (True, {0: 3})
    assert shown[-1] == 3


def test_the_position_stays_before_lines_that_are_not_confirmed(log: Path) -> None:
    runner, file = agent(log, Sender(confirmed=1), lines_max=2)
    assert not runner.run()
    assert offsets(file) == [8]
    state = file.load()
    assert state is not None
    assert not state.stopped
    runner.tailer.close()
    sender = Sender()
    again, _ = agent(log, sender)
    assert again.run()
    assert sender.values == [b"three"]


def test_delivered_lines_are_left_out(log: Path) -> None:
    sender = Sender()
    runner, file = agent(log, sender, delivered=[DeliveredLine("s1", 4, 3)])
    assert runner.run()
    assert sender.values == [b"one", b"three"]
    assert offsets(file) == [14]
