"""`python -m benchmarks.partitions [--count N]`: the cost of many partitions for the broker and
other clients.

Another process requests the end offset of one partition without a pause. Its longest wait during
each step is the figure that matters: a step may take long, but other clients must not wait for it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import frames
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from kqueue.client import LATEST, Client, NewTopic, TopicPartition

COUNT = 5_000
WAIT_MS_MAX = 50
SECONDS_MAX = 1
FOLDERS_TIMEOUT_S = 120
OPENED_AT_ONCE = 20
HIGH_WATERMARK_CHECKPOINT_S = 6


@dataclass
class Step:
    """The duration of one operation, and the longest wait of another client meanwhile."""

    name: str
    seconds: float
    wait_ms: float


class Watcher:
    """Another client, in a process of its own. Use as a context manager; `longest_ms(since, until)`
    after it.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._arguments = ["--watch", bootstrap, topic]
        self._waits: list[tuple[float, float]] = []

    def __enter__(self) -> Watcher:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.partitions", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        return self

    def __exit__(self, *_: object) -> None:
        printed = self._process.communicate("stop\n")[0]
        for line in printed.splitlines():
            began, wait_ms = line.split()
            self._waits.append((float(began), float(wait_ms)))

    def longest_ms(self, since: float, until: float) -> float:
        """Return the longest wait between two times of `time.time()`."""
        return max((ms for began, ms in self._waits if began < until and began + ms / 1000 > since), default=0.0)


def watch(bootstrap: str, topic: str) -> None:
    """Send requests until a line arrives; then print start and milliseconds of each wait."""
    import select

    place = TopicPartition(topic, 0)
    waits = []
    with Client(bootstrap) as client:
        client.offsets({place: LATEST})
        print("begun", flush=True)
        while not select.select([sys.stdin], [], [], 0.001)[0]:
            began = time.time()
            client.offsets({place: LATEST})
            waits.append((began, (time.time() - began) * 1000))
    for began, wait_ms in waits:
        print(f"{began} {wait_ms}")


def steps(served: OwnBroker, count: int) -> list[Step]:
    """Yield the steps in order: create, open, checkpoint, delete."""
    watched = frames.create_topic(served.bootstrap, "watched")
    times: list[tuple[str, float, float]] = []
    with Watcher(served.bootstrap, watched) as watcher, Client(served.bootstrap) as client:
        time.sleep(1)

        def step(name: str, run: Callable[[], object]) -> None:
            began = time.time()
            run()
            times.append((name, began, time.time()))
            time.sleep(0.3)

        data = served.folder / "data"
        step("idle", lambda: time.sleep(2))
        step(f"create {count} partitions", lambda: client.create_topics([NewTopic("many", count)], timeout_ms=120_000))
        step("their folders", lambda: _until(lambda: _folders(data) >= count))
        step("Metadata of all", lambda: client.metadata(timeout_ms=120_000))
        step("checkpoints", lambda: time.sleep(HIGH_WATERMARK_CHECKPOINT_S))
        step("ListOffsets of all, opens logs", lambda: _open_all(client, count))
        step("checkpoints, all open", lambda: time.sleep(HIGH_WATERMARK_CHECKPOINT_S))
        step("delete", lambda: client.delete_topics(["many"], timeout_ms=120_000))
        step("their removal", lambda: _until(lambda: _folders(data) == 0))
    return [Step(name, until - since, watcher.longest_ms(since, until)) for name, since, until in times]


def _open_all(client: Client, count: int) -> None:
    for first in range(0, count, OPENED_AT_ONCE):
        client.offsets(
            {TopicPartition("many", number): LATEST for number in range(first, min(first + OPENED_AT_ONCE, count))}
        )


def _folders(data: Path) -> int:
    return sum(path.name.startswith("many-") for path in data.iterdir())


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FOLDERS_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("the folders did not come or go in time")
        time.sleep(0.05)


def rows() -> Iterator[tuple[str, Callable[[], Row]]]:
    yield "many partitions", many_partitions


def many_partitions() -> Row:
    """Return the row for `python -m benchmarks`."""
    with OwnBroker("group") as own:
        timed_steps = steps(own, COUNT)
    create = next(step for step in timed_steps if step.name.startswith("create"))
    longest = max(step.wait_ms for step in timed_steps if step.name != "Metadata of all")
    figures = [
        Figure(create.seconds, f"s to create {COUNT} partitions", at_most=SECONDS_MAX),
        Figure(longest, "ms, longest wait of another client", at_most=WAIT_MS_MAX),
    ]
    return Row(
        "many partitions", figures, "created, opened, checkpointed, deleted; the other client asks for an end offset"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--watch", nargs=2, metavar=("HOST:PORT", "TOPIC"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        watch(*options.watch)
        return
    with OwnBroker("group") as own:
        memory = psutil.Process(own.pid).memory_info().rss
        for step in steps(own, options.count):
            print(f"{step.name:32} {step.seconds:8.2f} s, another client waited {step.wait_ms:8.1f} ms at most")
        print(f"resident memory before {memory >> 20} MB, after {psutil.Process(own.pid).memory_info().rss >> 20} MB")


if __name__ == "__main__":
    main()
