"""Starts and kills real broker and query processes, and a producer that survives the kills."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from compat_tests.spark.sending import batch
from compat_tests.waits import eventually
from kqueue.base.addresses import parse_addresses
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.testing.process_environment import process_environment

PROGRESS = re.compile(r"[A-Z][\w ]+: (.*, )?after \d+ s")
ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_path("purelib"))
HOME = PACKAGES if (PACKAGES / "kqueue").is_dir() else ROOT
"""The folder that child processes import kqueue from: its installation or this source tree."""
KILLS = int(os.environ.get("KQUEUE_KILLS", "1"))
STOPS = int(os.environ.get("KQUEUE_STOPS", "3"))
SEED = int(os.environ.get("KQUEUE_SEED", "7"))
DEADLINE_S = 240
"""Seconds until a hang is ended: a starved machine takes a minute to start Java."""


def said(lines: Iterable[str]) -> Iterator[str]:
    """Yield what a job says, without the lines that tell every ten seconds where it is."""
    return (line for line in lines if PROGRESS.fullmatch(line.rstrip("\n")) is None)


def start(folder: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start a Python process in its own process group and in `folder`.

    Everything except standard output goes to ``folder/log``.
    """
    env = process_environment(PYTHONPATH="" if HOME == PACKAGES else str(ROOT))
    with (folder / "log").open("ab") as log:
        command = [sys.executable, *arguments]
        return subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, start_new_session=True, env=env
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, such as Java and Python workers, with SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def first_line(output: IO[bytes] | None, folder: Path) -> str:
    assert output is not None
    assert select.select([output], [], [], DEADLINE_S)[0], "it says nothing"
    line = output.readline().decode().strip()
    assert line, last_words(folder)
    return line


def last_words(folder: Path) -> str:
    return (folder / "log").read_text()[-4000:]


def check_alive(process: subprocess.Popen[bytes], folder: Path) -> None:
    assert process.poll() is None, last_words(folder)


def until(condition: Callable[[], bool], alive: Callable[[], object], what: str) -> None:
    """Return once `condition` is true, while `alive` raises nothing and returns None.

    Raises: AssertionError: the condition was not true in time.
    """
    eventually(lambda: condition() or alive(), what, DEADLINE_S)


class Served:
    """A `kqueue serve` process whose folder and port stay the same after each kill."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.bootstrap = f"127.0.0.1:{free.getsockname()[1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker with a random flush policy.

        Neither policy loses data when the process is killed, because written data is in the page
        cache.
        """
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": "data",
            "kqueue.flush": self.rng.choice(["group", "kafka"]),
        }
        given = [word for item in settings.items() for word in ("--set", "=".join(item))]
        self.process = start(
            self.folder, "-m", "kqueue.cli", "serve", "--set", "auto.create.topics.enable=false", *given
        )
        until(self._answers, self._alive, "the broker answers")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(parse_addresses(self.bootstrap)[0]):
            return True
        return False

    def _alive(self) -> None:
        assert self.process is not None
        check_alive(self.process, self.folder)

    def kill(self) -> None:
        if self.process is not None:
            kill(self.process)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Producer(threading.Thread):
    """Sends small batches until `end()` is called, also while its broker restarts.

    `confirmed` holds the confirmed values. A batch whose reply was lost may have been written. Its
    values are not sent again.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.rng = rng
        self.confirmed: list[bytes] = []
        self.enough = threading.Event()
        self._sent = 0

    def run(self) -> None:
        while not self.enough.wait(0.05):
            self.send(self.rng.randint(1, 5))

    def send(self, count: int) -> None:
        values = [b"%d" % (self._sent + number) for number in range(count)]
        self._sent += count
        topic_partition = TopicPartition(self.topic, self.rng.randrange(self.partitions))
        try:
            with Client(self.bootstrap, timeout_ms=1000) as client:
                client.produce({topic_partition: batch(values, keys=values)})
        except ClientError:
            return
        self.confirmed += values

    def end(self) -> None:
        self.enough.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()
