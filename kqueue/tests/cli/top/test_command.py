"""`kqueue top`: one picture in this process, and the screen in a terminal of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result

import kqueue
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

Kqueue = Callable[..., Result]
LEAVE_SCREEN = b"\x1b[?1049l"


def test_one_picture_as_text(kq: Kqueue, topic: str) -> None:
    result = kq("top", "--once", "--interval", "0.2")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any(line.startswith(f"{topic} ") for line in lines)
    assert [line.split()[0] for line in lines if "───" in line] == ["Brokers", "Topics", "Groups", "Slow", "Disks"]
    assert "--metrics http://127.0.0.1:9404" in result.stdout


def test_without_a_terminal_it_is_one_picture_too_and_json_where_that_is_asked_for(kq: Kqueue, topic: str) -> None:
    result = kq("top", "--interval", "0.2", "-o", "json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    (shown,) = [row for row in report["topics"] if row["name"] == topic]
    assert (shown["partitions"], shown["records_per_s"], shown["bytes_per_s"]) == (3, 0.0, 0.0)
    assert report["requests"] is None


def test_requests_are_those_between_the_two_readings() -> None:
    from click.testing import CliRunner

    from kqueue.cli.app import kqueue as main

    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        metrics = broker._server.metrics
        assert metrics is not None
        options = ["-b", broker.bootstrap, "--metrics", f"http://127.0.0.1:{metrics.address.port}", "--json"]
        result = CliRunner().invoke(main, ["top", "--once", "--interval", "0.2", *options])
    rows = {row["api"]: row for row in json.loads(result.stdout)["requests"]}
    assert rows["Metadata"]["requests_per_s"] > 0


@for_each(
    "arguments, words",
    [
        (["--metrics", "127.0.0.1:9404"], "write http://HOST:PORT"),
        (["--interval", "0"], "--interval"),
        (["-b", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said(kq: Kqueue, arguments: list[str], words: str) -> None:
    result = kq("top", "--once", *arguments)
    assert result.exit_code != 0
    assert words in result.stderr


class Terminal:
    """A process in a terminal of its own, of 100 columns and 30 lines."""

    def __init__(self, *arguments: str) -> None:
        self.fd, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(side)
        self.side = side
        self.output = b""
        os.set_blocking(self.fd, False)
        command = [sys.executable, "-m", "kqueue.cli", *arguments]
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
        self.process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=env, start_new_session=True)

    def shows(self, text: str) -> bool:
        with contextlib.suppress(BlockingIOError):
            self.output += os.read(self.fd, 1 << 16)
        return text.encode() in self.output

    def press(self, keys: str) -> None:
        self.output = b""
        os.write(self.fd, keys.encode())

    def end(self) -> int:
        eventually(lambda: self.shows("\0") or self.process.poll() is not None)
        self.shows("\0")
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.side)
        os.close(self.fd)


@pytest.fixture
def terminal(bootstrap: str, topic: str) -> Iterator[Terminal]:
    terminal = Terminal("top", "-b", bootstrap, "--interval", "0.2")
    yield terminal
    terminal.close()


@pytest.mark.long
def test_the_screen_answers_keys_and_restores_the_terminal(terminal: Terminal, topic: str) -> None:
    eventually(lambda: terminal.shows(topic))
    terminal.press("?")
    eventually(lambda: terminal.shows("any key: back"))
    terminal.press("x/")
    eventually(lambda: terminal.shows("filter: "))
    terminal.press("nothing\r")
    eventually(lambda: terminal.shows("no topics whose name has this text"))
    terminal.press("q")
    assert terminal.end() == 0
    assert LEAVE_SCREEN in terminal.output
    assert termios.tcgetattr(terminal.side) == terminal.before


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_screen_and_restores_the_terminal(
    terminal: Terminal, topic: str, number: signal.Signals, status: int
) -> None:
    eventually(lambda: terminal.shows(topic))
    terminal.process.send_signal(number)
    assert terminal.end() == status
    assert LEAVE_SCREEN in terminal.output
    assert termios.tcgetattr(terminal.side) == terminal.before
