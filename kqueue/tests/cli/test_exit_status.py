"""Ctrl-C and closed pipes: the exit status, and nothing on standard error."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.cli.exit_status import ends_quietly
from kqueue.testing.process_environment import process_environment
from kqueue.tests.cli.command_tree import client_commands
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

ARGUMENTS = {
    "kqueue acls add": ("--allow-principal", "User:a", "--operation", "READ", "--topic", "t"),
    "kqueue acls remove": ("--force", "--allow-principal", "User:a", "--operation", "READ", "--topic", "t"),
    "kqueue cluster elect": ("--all",),
    "kqueue cluster reassign plan": ("--brokers", "1"),
    "kqueue cluster unregister": ("1",),
    "kqueue configs alter": ("topics", "t", "--add", "retention.ms=1"),
    "kqueue configs describe": ("topics",),
    "kqueue consume": ("t",),
    "kqueue groups delete": ("g",),
    "kqueue groups delete-offsets": ("g", "--topic", "t"),
    "kqueue groups describe": ("g",),
    "kqueue groups reset-offsets": ("g", "--all-topics", "--to-latest"),
    "kqueue log-dirs move": ("t", "--to", "/data"),
    "kqueue quotas remove": ("producer_byte_rate", "--user", "a"),
    "kqueue quotas set": ("producer_byte_rate=1", "--user", "a"),
    "kqueue topics alter": ("t", "-p", "2"),
    "kqueue topics create": ("t",),
    "kqueue topics delete": ("t",),
    "kqueue topics delete-records": ("t", "--all"),
    "kqueue transactions abort": ("--transactional-id", "x"),
    "kqueue transactions describe": ("x",),
    "kqueue transactions describe-producers": ("t",),
    "kqueue users add": ("ann", "--password", "x"),
    "kqueue users remove": ("ann",),
}
OTHERS = (
    "kqueue collect",
    "kqueue console",
    "kqueue produce",
    "kqueue pipeline",
    "kqueue cluster reassign",
    "kqueue plugins",
)
"""They need files, standard input or Spark, or try once."""
COMMANDS = [words for words in client_commands() if words in ARGUMENTS or not words.startswith(OTHERS)]

# A stand-in for the import of a module during which Ctrl-C comes, and for code that hides it.
PROGRAM = """
import signal, sys
from kqueue.cli import app, exit_status
from kqueue.cli.app import kqueue
import click

@kqueue.command("try")
def attempt():
    {body}

kqueue.table = {{}}
kqueue.get_command = lambda ctx, name: attempt
sys.argv = ["kqueue", "try"]
exit_status.run(kqueue, "kqueue")
"""
BODIES = {
    "plain": "signal.raise_signal(signal.SIGINT)",
    "turned into another error": """
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("half imported")""",
    "turned into an error of the command": """
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise click.ClickException("it failed")""",
    "ignored in a finalizer": """
    class Loud:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)
    Loud()
    import time
    time.sleep(600)""",
    "ignored in a finalizer while threads start slowly": """
    import threading, time
    exit_status.AGAIN_S = 0
    start = threading.Thread.start
    threading.Thread.start = lambda thread: (start(thread), time.sleep(0.2))
    class Loud:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)
    Loud()
    time.sleep(600)""",
}


def run(*args: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code is not None else [sys.executable, "-m", "kqueue.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=process_environment())


@for_each("body", BODIES)
def test_ctrl_c_is_status_130_and_silent(body: str) -> None:
    result = run(code=PROGRAM.format(body=BODIES[body]))
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.parametrize("words", COMMANDS)
def test_ctrl_c_while_a_command_waits_for_a_broker(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one place in which all commands wait."""

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kqueue.cli.broker_wait.time.sleep", interrupted)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    arguments = [*words.split()[1:], *ARGUMENTS.get(words, ()), "-b", address]
    wait = [] if words == "kqueue cluster wait" else ["--timeout", "60"]
    result = CliRunner().invoke(kqueue, [*arguments, *wait])
    assert (result.exit_code, result.output.replace("Warning: a password in the arguments can be seen by others; "
            "use --password-file.\n", "")) == (130, ""), result.output  # fmt: skip


@pytest.mark.parametrize("delay_s", corners([0.05, 0.3, 0.6], 0.3))
def test_ctrl_c_at_any_time_of_the_start(delay_s: float) -> None:
    """At each of these moments another module is being imported."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        code = (
            "import sys; from kqueue.cli import main; print('.', flush=True); "
            f"sys.argv = ['kqueue', 'groups', 'describe', 'g', '-b', '{address}']; main()"
        )
        command = [sys.executable, "-c", code]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=process_environment()
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay_s)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors or process.returncode == -signal.SIGINT, errors


def test_ctrl_c_at_a_prompt_is_no_abort() -> None:
    @click.command()
    def ask() -> None:
        with ends_quietly():
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise click.Abort from None

    result = CliRunner().invoke(ask)
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize(
    "line",
    corners(
        ["settings", "settings -o json", "cluster apis --offline", "--help", "serve --check", "demo --flights 10"],
        "settings",
        "--help",
        "serve --check",
    ),
)
def test_a_closed_pipe_is_silent(line: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert written_to(writer, line, tmp_path) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("line", corners(["settings", "settings -o json", "--help"], "settings", "--help"))
def test_a_full_disk_is_one_sentence(line: str, tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert written_to(full, line, tmp_path) == (1, "Error: the output can't be written: No space left on device\n")


def written_to(output: int, line: str, folder: Path) -> tuple[int, str]:
    """Run a command with this file as its output. Return the exit status and standard error."""
    command = [sys.executable, "-m", "kqueue.cli", *line.split()]
    try:
        process = subprocess.run(
            command, stdout=output, stderr=subprocess.PIPE, cwd=folder, env=process_environment(), timeout=100
        )
    finally:
        os.close(output)
    return process.returncode, process.stderr.decode()
