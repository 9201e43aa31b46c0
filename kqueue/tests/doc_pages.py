"""Runs the commands and programs of a page of the documentation, as its reader would.

`sh` blocks are lines for bash, beside the broker of a `kqueue serve` line; `python` blocks are
programs, or tests for pytest. What needs no process of its own runs in this one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
ECHO = re.compile(r"echo '([^']*)' \| (?=kqueue )")


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


README = Page("README.md")
DEMO = "pip install '.[demo]' && kqueue demo"
BY_TOX = "pip install tox && tox p"
PROGRAM_OUTPUTS = {
    "b'two coffees'\n",
    "b'Alice: -5' b'Bob: +5'\n",
    "0 b'two coffees'\n1 b'one tea'\n",
    "",
}


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

    A call of `kqueue` runs in this process, which saves the start of another, and so does one whose
    input is an `echo`; what needs a shell runs with bash.
    """
    echo = ECHO.match(line)
    command, printed = (line, None) if echo is None else (line[echo.end() :], f"{echo[1]}\n")
    if command.startswith("kqueue ") and SHELL.search(command) is None:
        with contextlib.chdir(folder):
            called = CliRunner(env=variables).invoke(kqueue, shlex.split(command)[1:], input=printed)
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
    """Run a program in this process, which saves the start of another; return what it prints.

    An error, or a word on standard error, fails the test.
    """
    program = folder / "program.py"
    program.write_text(text)
    output, errors = run_here(program, folder)
    assert errors == ""
    return output


def run_here(program: Path, folder: Path) -> tuple[str, str]:
    """Run a program in this process; return standard output and standard error.

    Args:
        folder: the current folder meanwhile.
    """
    output, errors = io.StringIO(), io.StringIO()
    modules = set(sys.modules)
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        sys.path.insert(0, str(folder))
        try:
            runpy.run_path(str(program), run_name="__main__")
        finally:
            sys.path.remove(str(folder))
            for name in {path.stem for path in folder.glob("*.py")} - modules:  # another page has others
                sys.modules.pop(name, None)
    return output.getvalue(), errors.getvalue()


def run_tests(texts: Sequence[str], folder: Path) -> None:
    """Run the tests of these files with pytest. A failed one, or a word on standard error, fails
    the test.
    """
    for number, text in enumerate(texts):
        (folder / f"test_{number}.py").write_text(text)
    tests = sum(map(count_tests, texts))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    assert f"{tests} passed" in result.stdout


def count_tests(text: str) -> int:
    """Return how many tests a program has."""
    return len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE))


def run_blocks(page: Page, folder: Path) -> None:
    """Run a page's tests and programs, then its commands, each in the order of the page."""
    lines = [line for line in page.commands() if _runs_beside_a_broker(line)]
    if tests := [text for text in page.blocks("python") if count_tests(text)]:
        run_tests(tests, folder)
    for text in page.blocks("python"):
        if text not in tests:
            assert run_program(text, folder) in PROGRAM_OUTPUTS
    if not lines:
        return
    with serving("kqueue serve", folder) as bootstrap:
        for line in lines:
            printed = run_line(line, folder, KQUEUE_BOOTSTRAP=bootstrap)
            if line.startswith("kqueue consume orders"):
                assert printed == "two coffees\n"
    assert (folder / "kqueue-data").is_dir()


def _runs_beside_a_broker(line: str) -> bool:
    return line not in (DEMO, BY_TOX) and not line.startswith(("kqueue serve", "pip install "))
