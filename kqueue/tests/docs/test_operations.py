"""docs/operations.md: its commands run, in their order, on one data folder."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from pathlib import Path

import pytest

from kqueue.base.events import EVENTS
from kqueue.tests.doc_pages import Page, run_line, serving

PAGE = Page("docs/operations.md")
SERVE = "kqueue serve "
METRICS = re.compile(r"(?<=kqueue.metrics.listener=)127\.0\.0\.1:\d+")


@pytest.mark.long
def test_the_commands_run_in_their_order(tmp_path: Path) -> None:
    """A `kqueue serve` line ends the broker before it, as each section says; so does `backup
    restore`, but for the broker that runs beside.
    """
    printed: dict[str, str] = {}
    variables: dict[str, str] = {}
    with contextlib.ExitStack() as broker:
        for line in PAGE.commands():
            if line == "kqueue serve --check":
                printed[line] = run_line(line, tmp_path)
            elif line.startswith(SERVE):
                broker.close()
                metrics = f"127.0.0.1:{_free_port()}"
                started = METRICS.sub(metrics, line).partition(" --port")[0]
                variables = {"KQUEUE_BOOTSTRAP": broker.enter_context(serving(started, tmp_path))}
                health = f"http://{metrics}"
            elif line == "kqueue health":
                printed[line] = run_line(f"{line} {health}", tmp_path)
            else:
                printed[line] = run_line(line, tmp_path, **variables)
    assert printed["kqueue health"] == "ready\n"
    assert "second-disk" in printed["kqueue log-dirs orders"]
    assert json.loads((tmp_path / "kqueue-dashboard.json").read_text())
    assert (tmp_path / "second-disk" / "orders-0").is_dir()


def test_events_that_it_names_are_in_the_table() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.text, re.MULTILINE)
    names = re.findall(r"`([a-z-]+\.[a-z-]+)`", " ".join(rows))
    assert len(names) > 5
    assert set(names) <= {event.name for event in EVENTS}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
