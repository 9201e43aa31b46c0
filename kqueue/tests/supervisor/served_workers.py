"""`kqueue serve --workers N` as processes, for tests."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from kqueue.testing.process_environment import process_environment
from kqueue.tests.waits import eventually

WAIT_S = 60.0  # several processes start, beside other tests
ANY_PORT = "listeners=PLAINTEXT://127.0.0.1:0"


class ServedWorkers:
    """A running supervisor with its workers.

    `folder`: the data folder. `seen`: processes of workers that `workers` has returned.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.process = process
        self.seen: set[psutil.Process] = set()
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> list[str]:
        """The lines so far."""
        return list(self._lines)

    @property
    def bootstrap(self) -> str:
        """The address of all workers."""
        return self.wait_for(r"supervisor: \d+ workers? serves? \w+://(\S+)")

    def address(self, worker: int) -> str:
        """The worker's own address."""
        return self.wait_for(rf"worker {worker}: kqueue \S+ serves \w+://(\S+);")

    def wait_for(self, pattern: str, count: int = 1) -> str:
        """Wait for so many lines; return the first group in the last of them, else the line."""
        matches: list[re.Match[str]] = []

        def seen() -> bool:
            matches[:] = [match for line in self.log if (match := re.search(pattern, line))]
            return len(matches) >= count or self.process.poll() is not None

        eventually(seen)
        assert len(matches) >= count, f"{pattern} is not in:\n" + "\n".join(self.log)
        return str(matches[count - 1].group(min(1, matches[count - 1].re.groups)))

    def workers(self) -> dict[int, psutil.Process]:
        """The worker's processes by number, by the ports that the supervisor gave them."""
        by_number = {}
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                files = {Path(file.path).parent for file in child.open_files() if file.path.endswith(".lock")}
                for folder in files:
                    by_number[0 if folder == self.folder.resolve() else int(folder.name)] = child
        self.seen.update(by_number.values())
        return by_number

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal to the supervisor; return its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(WAIT_S)
        self.join()
        return status

    def join(self) -> None:
        """Wait for the last line, once all have ended."""
        self._reader.join(WAIT_S)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.append(line.rstrip("\n"))


@contextlib.contextmanager
def serving(folder: Path, workers: int, *args: str) -> Iterator[ServedWorkers]:
    """Run workers until the end of the context, which kills what is left."""
    settings = [f"log.dirs={folder}", ANY_PORT]
    pairs = [part for pair in settings for part in ("--set", pair)]
    command = [sys.executable, "-m", "kqueue.cli", "serve", "--workers", str(workers), *pairs, *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=process_environment()
    ) as process:
        served = ServedWorkers(folder, process)
        try:
            yield served
        finally:
            children: list[psutil.Process] = []
            with contextlib.suppress(psutil.Error):
                children = psutil.Process(process.pid).children()
            process.kill()
            for child in {*children, *served.seen}:  # those of a dead supervisor are nobody's children
                with contextlib.suppress(psutil.Error):
                    child.kill()
            served.join()
