"""Tests of docs/collect.md: its commands run, and its options and headers exist."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue import Broker
from kqueue.cli.app import kqueue
from kqueue.cli.collect import collect
from kqueue.collect.fingerprint import FINGERPRINT_BYTES
from kqueue.collect.line_sender import KEYS, headers_of
from kqueue.collect.tailed_file import Line
from kqueue.tests.doc_pages import environment, run_line
from kqueue.tests.processes import started

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "collect.md").read_text()
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("app.log", "app.log.1", "web.log", "rows.csv"):
        (tmp_path / name).write_text(f"{name} one\n{name} two\n")
    return tmp_path


@pytest.mark.long
def test_every_command(broker: Broker, folder: Path) -> None:
    for line in COMMANDS:
        if "collect" not in line or "--once" in line:
            out = run_line(line, folder, KQUEUE_BOOTSTRAP=broker.bootstrap)
            continue
        with started(
            ["bash", "-c", f"exec {line}"],
            cwd=folder,
            env=environment(KQUEUE_BOOTSTRAP=broker.bootstrap),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            broker.assert_produced("logs", [b"app.log one", b"app.log two"], within_s=60)
            process.send_signal(signal.SIGINT)
            out, told = process.communicate(timeout=60)
        assert process.returncode == 130, f"{line}\n{out}{told}"
    values = [record.value.decode() for record in broker.topics["logs"].records() if record.value]
    assert sorted(values) == sorted(
        f"{name} {number}" for name in ("app.log", "app.log.1", "web.log") for number in ("one", "two")
    )
    assert len(broker.topics["rows"].records()) == 2
    assert "app.log.1 two host=" in out


def test_options_and_defaults() -> None:
    helped = " ".join(CliRunner().invoke(kqueue, ["collect", "--help"]).output.split())
    rest = CliRunner().invoke(kqueue, ["consume", "--help"]).output
    rest += CliRunner().invoke(kqueue, ["topics", "create", "--help"]).output
    assert [option for option in set(re.findall(r"--[a-z][a-z-]*", TEXT)) if option not in helped + rest] == []
    defaults = {param.name: param.default for param in collect.params}
    assert f"`--max-line` ({defaults['line_bytes_max'] // 1024} KiB)" in TEXT
    assert f"`--partial` seconds ({defaults['partial_s']:g})" in TEXT
    assert f"every `--batch` lines ({defaults['lines_max']})" in TEXT
    assert f"first {FINGERPRINT_BYTES} bytes" in TEXT


def test_headers_and_keys() -> None:
    told = re.findall(r"^\| header `(\w+)` \|", TEXT, re.MULTILINE)
    assert told == [name for name, _ in headers_of(Line(b"", "/x", "s", 0, 0), "h")]
    assert "(`--key`: " + ", ".join(f"`{name}`" for name in list(KEYS)[:-1]) + " or `none`)" in TEXT
