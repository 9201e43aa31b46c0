"""kqueue on a data folder: in this process, or in one of its own that can be killed."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import kqueue
from kqueue.broker.replicas.partition import Partition
from kqueue.testing.process_environment import process_environment

T = TypeVar("T")
START_TIMEOUT_S = 60

# No retention by age: the records of these tests are years old. The node id is Kafka's, because
# both brokers use the folder in turn.
SETTINGS: Mapping[str, object] = {"node.id": 1, "log.retention.ms": -1, "offsets.topic.num.partitions": 4}


@contextmanager
def serving(folder: Path, **settings: object) -> Iterator[kqueue.Broker]:
    """kqueue in this process, stopped cleanly at the end; `settings` with `_` for `.`."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    with kqueue.Broker(folder, settings={**SETTINGS, **own}) as broker:
        yield broker


def on_partition(broker: kqueue.Broker, topic: str, index: int, work: Callable[[Partition], T]) -> T:
    """Run `work` on a partition of a running broker, on the thread that owns it: for what no client
    can ask for.
    """

    async def run() -> T:
        return work(broker._server.broker.topics.partition(topic, index))

    result: Callable[[Callable[[], Coroutine[Any, Any, T]]], T] = broker._call
    return result(run)


class Process:
    """`kqueue serve` as a process. `with` starts it, and ends it as TERM does; `kill` as a crash
    would.
    """

    def __init__(self, folder: Path, log_file: Path, **settings: object) -> None:
        own = {name.replace("_", "."): value for name, value in settings.items()}
        values = {**SETTINGS, "log.dirs": folder, "listeners": "PLAINTEXT://127.0.0.1:0", **own}
        pairs = [text for name, value in values.items() for text in ("--set", f"{name}={value}")]
        self._command = [sys.executable, "-m", "kqueue.cli", "serve", *pairs]
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    def __enter__(self) -> Process:
        with self._log_file.open("ab") as log:
            begin = log.tell()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=process_environment()
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (match := re.search(r"127\.0\.0\.1:[1-9][0-9]*", self.said()[begin:])):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"kqueue did not start:\n{self.said()}")
            time.sleep(0.05)
        self.bootstrap = match[0]
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(START_TIMEOUT_S)
        self.kill()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def crash(self) -> None:
        """End it as kill -9 does, and start it again."""
        self.kill()
        self.__enter__()

    def said(self) -> str:
        return self._log_file.read_text("utf-8", "replace")
