"""Tests of docs/command-line.md: the commands run, and the completion scripts are those of the
shells.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.tests.cli.test_json import COMMANDS, WITHOUT
from kqueue.tests.tables import for_each

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"
TEXT = PAGE.read_text()


@pytest.mark.parametrize("block", re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S))
def test_the_commands_run(block: str, tmp_path: Path) -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        environment = {"KQUEUE_BOOTSTRAP": broker.bootstrap, "XDG_CONFIG_HOME": str(tmp_path)}
        for line in block.splitlines():
            result = CliRunner().invoke(root, shlex.split(line)[1:], env=environment)
            assert result.exit_code == 0, (line, result.output)


def test_every_command_with_json_is_described() -> None:
    described = {name for cell in re.findall(r"^\| (`[^|]*`) \|", TEXT.split("## JSON")[1].split("##")[0], re.M)
                 for name in re.findall("`([^`]+)`", cell)}  # fmt: skip
    defaults = {"plugins list": "plugins", "log-dirs show": "log-dirs"}
    assert described == {defaults.get(name, name) for name in set(COMMANDS) - WITHOUT}


@pytest.mark.long
@for_each("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed_and_completes(shell: str) -> None:
    assert f"_KQUEUE_COMPLETE={shell}_source kqueue" in TEXT

    def run(mode: str, **more: str) -> str:
        program = "from kqueue.cli import main; main()"
        environment = {**os.environ, "_KQUEUE_COMPLETE": f"{shell}_{mode}", **more}
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
        ).stdout

    assert "_KQUEUE_COMPLETE" in run("source")
    words = {"COMP_WORDS": "kqueue top", "COMP_CWORD": "top" if shell == "fish" else "1"}
    assert "topics" in run("complete", **words)
