"""Tests of docs/log-tools.md: its commands and programs run on a data folder that
kqueue has made.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.log.config import LogConfig
from kqueue.log.manager import LogManager
from kqueue.log_tools.rows import Row
from kqueue.storage import LocalStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.doc_pages import run_program
from kqueue.tests.log.helpers import START_MS, append

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "log-tools.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose `kqueue-data` has the topic `orders`; `broker-1` to 3 are copies."""
    storage = LocalStorage(tmp_path / "kqueue-data")
    logs = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(1))
    for partition in range(2):
        log = logs.open("orders", partition, bytes(15) + b"\x01", LogConfig.of())
        append(log, *(b'{"coffees":%d}' % number for number in range(5)))
    logs.close()
    for number in (1, 2, 3):
        shutil.copytree(tmp_path / "kqueue-data", tmp_path / f"broker-{number}")
    return tmp_path


@pytest.mark.parametrize("block", blocks("sh"))
def test_every_command(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for line in block.splitlines():
        name, *arguments = line.split()
        assert name == "kqueue"
        ran = CliRunner().invoke(kqueue, arguments)
        assert (ran.exit_code, ran.stderr) == (0, ""), f"{line}\n{ran.output}"


def test_every_program(folder: Path) -> None:
    (program,) = blocks("python")
    values = [f'{{"coffees":{number}}}' for number in range(1, 5)]
    assert run_program(program, folder).splitlines() == ["True []", "True [] []", f"4 {values}", "5"]


def test_options_and_columns_exist() -> None:
    told = set(re.findall(r"`(--[a-z-]+)", TEXT)) | {
        word for block in blocks("sh") for word in re.findall(r"--[a-z-]+", block)
    }
    helps = "".join(
        CliRunner().invoke(kqueue, ["log", name, "--help"]).output for name in ("dump", "verify", "repair", "export")
    )
    helps += CliRunner().invoke(kqueue, ["produce", "--help"]).output
    assert [option for option in sorted(told) if option not in helps] == []
    (columns,) = re.findall(r"^Columns: (.*?)\. Keys", TEXT, re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`", columns)) == Row._fields
