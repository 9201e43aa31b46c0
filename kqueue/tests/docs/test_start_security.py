"""Tests of docs/start/security.md: its test passes, and its commands run one after the other."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.tests.doc_pages import Page, run_tests
from kqueue.tests.shell_script import run_script

PAGE = Page("docs/start/security.md")
PORT = "9093"
TIMEOUT_S = 120


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the script runs. A broker that it leaves running, because it failed, is killed."""
    yield tmp_path
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(int((tmp_path / "broker.pid").read_text()), signal.SIGKILL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


@pytest.mark.long
def test_the_test_of_a_reader_passes(tmp_path: Path) -> None:
    run_tests(PAGE.blocks("python"), tmp_path)


@pytest.mark.long
def test_the_server_lets_ann_write_and_nothing_else(folder: Path) -> None:
    _, *blocks = PAGE.blocks("sh")
    script = "".join(blocks).replace(PORT, str(free_port()))
    with (folder / "printed").open("w") as printed:
        status = run_script(script, folder, printed, TIMEOUT_S)
    text = (folder / "printed").read_text()
    assert status == 0, f"{text}\n{(folder / 'broker.log').read_text()}"
    assert "anonymous    nothing: all listeners authenticate" in text
    assert "\ntwo coffees\n" in text
    assert "this user may not do that with the topic" in text
    assert "\nann may not\n" in text
