"""Runs the commands and programs of a page of the documentation, as its reader would.

`sh` blocks are lines for bash, beside the broker of a `kqueue serve` line; `python` blocks are
programs, or tests for pytest.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.testing.process_environment import process_environment
from kqueue.tests.source_tree import ROOT

SERVES = re.compile(r"serves PLAINTEXT://(\S+?);")
TIMEOUT_S = 110
SHELL = re.compile(r"[|<>;&$*]")
CONTINUED = re.compile(r"\\\n\s*")


class Page(NamedTuple):
    """A page of the documentation, by its path from the root of the project."""

    name: str

    @property
    def text(self) -> str:
        return (ROOT / self.name).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        """Return the fenced blocks of a language, in order."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def commands(self) -> list[str]:
        """Return the lines of the `sh` blocks, in order."""
        return [line for text in self.blocks("sh") for line in CONTINUED.sub("", text).splitlines()]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, with the `kqueue` of this Python first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return process_environment(PATH=path, **more)


@contextlib.contextmanager
def serving(command: str, folder: Path) -> Iterator[str]:
    """Run a `kqueue serve` line in a folder, but on a free port; yield the broker's address.

    At the end it is stopped, as by Ctrl-C; after an error it is killed.
    """
    with subprocess.Popen(
        command.split(),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(KQUEUE_LISTENERS="PLAINTEXT://127.0.0.1:0"),
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = SERVES.search(line)
            assert match is not None, line
            yield match[1]
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == 0


def run_line(line: str, folder: Path, **variables: str) -> str:
    """Run a line; return what it prints. A status other than 0 fails the test.

    A call of `kqueue` runs in this process, which saves the start of another; what needs a shell
    runs with bash.
    """
    if line.startswith("kqueue ") and SHELL.search(line) is None:
        with contextlib.chdir(folder):
            called = CliRunner(env=variables).invoke(kqueue, shlex.split(line)[1:])
        assert called.exit_code == 0, f"{line}\n{called.output}"
        return called.stdout
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(**variables),
        check=False,
    )
    assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
    return result.stdout


def run_program(text: str, folder: Path) -> str:
    """Run a program, or the tests in it with pytest; return what it prints.

    An error, a failed test, or a word on standard error fails the test.
    """
    (folder / "test_it.py").write_text(text)
    tests = len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE))
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if tests else ["test_it.py"]
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    if tests:
        assert f"{tests} passed" in result.stdout
    return result.stdout
