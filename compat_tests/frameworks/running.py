"""Runs a framework's program as a process that a test can kill, and waits for what it does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
WAIT_S = 120
"""What ends a hang: a busy machine takes a minute to start Java."""
LOG_CHARS_MAX = 6000
PAUSE_S = 0.1


class Program:
    """A process, with the processes that it starts; `with` starts it and kills what is left of it.

    What it writes goes to `log_file`, which is in the message of every failure.
    """

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._folder = folder
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = folder / "program.log"

    def __enter__(self) -> Program:
        self.start()
        return self

    def start(self) -> None:
        """Start it, again too."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def crash(self) -> None:
        """End it as a crash does, and start it again."""
        self.kill()
        self.start()

    def stop(self) -> int:
        """End it as TERM does, and return its exit status. Raises TimeoutExpired: it goes on."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(WAIT_S)
        self.kill()
        return status

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises AssertionError: the program ended, or `condition` is false after `WAIT_S`."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                why = "the program ended" if ended else f"{WAIT_S} s are over"
                raise AssertionError(f"{why}; not reached: {what}\n{self.said()[-LOG_CHARS_MAX:]}")
            time.sleep(PAUSE_S)

    def said(self) -> str:
        """Return what the program wrote."""
        return self.log_file.read_text("utf-8", "replace")


def python(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of `programs`."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]
