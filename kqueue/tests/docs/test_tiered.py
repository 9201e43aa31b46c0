"""Tests of docs/tiered.md: its commands run one after the other, its settings exist."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.config.catalog import CATALOG
from kqueue.tests.docs.test_clusters import run, script_of
from kqueue.tests.source_tree import ROOT

TEXT = (ROOT / "docs" / "tiered.md").read_text()
SECTIONS = {text.partition("\n")[0]: text for text in TEXT.split("\n## ")}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the script runs; its broker is killed at the end."""
    yield tmp_path
    for file in tmp_path.glob("broker-*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.long
def test_one_broker_by_hand(folder: Path) -> None:
    section = SECTIONS["One broker by hand"]
    printed = run(script_of(section), folder)
    assert "200000" in printed.splitlines()
    assert "All is sound." in printed
    assert run_program(section, folder).startswith("b'1' 1")


def test_program_reads_what_only_the_tier_has(folder: Path) -> None:
    assert run_program(SECTIONS["In a program"], folder) == "b'two coffees'\n"


def run_program(section: str, folder: Path) -> str:
    (program,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_all_settings_exist() -> None:
    names = [
        name
        for name in re.findall(r"^\| (`.*?) \|", SECTIONS["Settings"], re.MULTILINE)
        for name in re.findall(r"`([a-z.]+)`", name)
    ]
    assert len(names) > 15
    assert [name for name in names if name not in {**CATALOG.broker, **CATALOG.topic}] == []
