"""`python -m benchmarks.beside [--only NAME] [--full]`: what a good client waits beside heavy work.

A client in a process of its own produces one record with acks=1 and fetches it, without a pause, on
a partition of its own. Its waits are measured beside

    recovery       a start after a crash: many partitions whose logs must be read
    recompression  a topic of codec zstd, whose producers send large batches with lz4
    checkpoints    many open partitions, whose checkpoints are written every second
    snapshot       a copy of all data

99.9 % of its requests must be answered within 50 ms. Each scenario is measured `idle` first: what
the machine itself costs, which other processes on it raise.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kqueue
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from kqueue.base.errors import KqueueError
from kqueue.client import LATEST, Client, NewTopic, TopicPartition
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN, HIGH_WATERMARKS, RECOVERY_POINTS
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, file_name
from kqueue.records.builder import BatchBuilder

WAIT_MS_MAX = 50
PARTITIONS, MEGABYTES = 200, 32
MEGABYTES_FULL = 1024
BATCH_RECORDS, RECORD_BYTES = 40, 100
SEGMENT_BYTES = 2**30
CHECKPOINTED = 5_000
SECONDS = 10
WAIT_S_MAX = 60
GOOD = TopicPartition("good", 0)
RECOVERY_S_MAX = 3600
HELD = r"the event loop runs again after (.*)"
"""What the watchdog writes."""


@dataclass
class Waits:
    """The waits of one client in ms, sorted."""

    name: str
    ms: list[float]
    note: str = ""

    def at(self, share: float) -> float:
        """Return the wait that this share of the requests does not exceed."""
        return self.ms[min(int(len(self.ms) * share), len(self.ms) - 1)] if self.ms else float("nan")

    def __str__(self) -> str:
        figures = ", ".join(f"{what} {self.at(share):.1f}" for what, share in
                            (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)))  # fmt: skip
        return f"{self.name:24} {len(self.ms):7} requests: {figures} ms  {self.note}"


class GoodClient:
    """The client, in a process of its own. Use as a context manager; `waits` after it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.ms: list[float] = []

    def __enter__(self) -> GoodClient:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.beside", "--ask", self._bootstrap],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        return self

    def __exit__(self, *_: object) -> None:
        printed, _ = self._process.communicate("stop\n")
        self.ms = sorted(map(float, printed.split()))


def ask(bootstrap: str) -> None:
    """Produce and fetch until a line arrives; then print the milliseconds of each request."""
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
    batch = one_batch(1, b"x" * 100)
    ms = []
    with Client(bootstrap) as client:
        offset = wait_for(lambda: client.offsets({GOOD: LATEST})[GOOD].offset)
        print("begun", flush=True)
        while not stopped.is_set():
            began = time.perf_counter()
            client.produce({GOOD: batch}, acks=1)
            produced = time.perf_counter()
            client.fetch({GOOD: offset}, max_wait_ms=0)
            ms += [(produced - began) * 1000, (time.perf_counter() - produced) * 1000]
            offset += 1
    print(" ".join(f"{each:.3f}" for each in ms))


def one_batch(count: int, value: bytes, codec: str = "none") -> bytes:
    """Return a batch of `count` records."""
    builder = BatchBuilder(codec)
    now = int(time.time() * 1000)
    for number in range(count):
        builder.append(now + number, None, value)
    return bytes(builder.build())


def wait_for(poll: Callable[[], int | None]) -> int:
    """Return what `poll` returns once it is not None; errors are tried again."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            if (value := poll()) is not None:
                return value
        except KqueueError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def measured(name: str, bootstrap: str, work: Callable[[], str | None]) -> Waits:
    """Return the waits of a good client beside `work`, which returns a note."""
    began = time.monotonic()
    with GoodClient(bootstrap) as client:
        first_s = time.monotonic() - began
        note = work()
    return Waits(name, client.ms, f"first answer after {first_s:.1f} s" + (f", {note}" if note else ""))


def idle(name: str, bootstrap: str) -> Waits:
    """Return the waits of a good client alone."""
    return measured(f"{name}, idle", bootstrap, lambda: time.sleep(3))


# --- recovery


def recovery(partitions: int, megabytes: int, seconds_max: float) -> Iterator[Waits]:
    """A start after a crash, for at most `seconds_max`.

    The logs are hard links to one file, so that they take its room once, and are in the page cache:
    recovery computes all the time, and never waits for a disk.
    """
    with tempfile.TemporaryDirectory(prefix="kqueue-beside-") as folder:
        data = Path(folder) / "data"
        with OwnBroker("group", data) as own, Client(own.bootstrap) as client:
            client.create_topics([NewTopic("good", 1)])
            client.create_topics(
                [NewTopic("many", partitions, settings={"segment.bytes": str(SEGMENT_BYTES)})], timeout_ms=120_000
            )
            wait_for(lambda: len(list(data.glob("many-*"))) >= partitions or None)
            fill(client, TopicPartition("many", 0), megabytes << 20)
            yield idle("recovery", own.bootstrap)
        crash(data, partitions)
        began = time.monotonic()
        with OwnBroker("group", data, {"kqueue.watchdog.ms": str(WAIT_MS_MAX)}) as own, Client(own.bootstrap) as client:
            listening_s = time.monotonic() - began

            def recovered() -> str:
                places = {TopicPartition("many", number): LATEST for number in range(partitions)}
                count = "all"
                try:  # asks again until each has a leader
                    client.offsets(places, timeout_ms=int(seconds_max * 1000))
                except KqueueError:
                    count = (["0", *re.findall(r"recovered (\d+) of", own.log())])[-1]
                return (
                    f"listening after {listening_s:.1f} s, {count} recovered after {time.monotonic() - began:.1f} s, "
                    f"{own.memory_bytes() / 1e6:.0f} MB resident, "
                    f"who held the loop for {WAIT_MS_MAX} ms: {sorted(re.findall(HELD, own.log()))}"
                )

            yield measured(f"recovery, {partitions} x {megabytes} MB", own.bootstrap, recovered)


def fill(client: Client, place: TopicPartition, size: int) -> None:
    """Produce about `size` bytes in batches of 4 KB."""
    rng = random.Random(1)
    batch = one_batch(BATCH_RECORDS, rng.randbytes(RECORD_BYTES))
    for _ in range(size // len(batch)):
        client.produce({place: batch}, acks=1)


def crash(data: Path, partitions: int) -> None:
    """Make the folder of a clean stop one of a crash, in which all of ``many`` must be read."""
    (data / CLEAN_SHUTDOWN).unlink()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        lines = (data / name).read_text().splitlines()
        kept = [line for line in lines[2:] if not line.startswith("many ")]
        (data / name).write_text("\n".join([lines[0], str(len(kept)), *kept, ""]))
    for number in range(partitions):
        folder = data / f"many-{number}"
        for suffix in (INDEX, TIMEINDEX):
            (folder / file_name(0, suffix)).unlink(missing_ok=True)
        if number:
            (folder / file_name(0, LOG)).unlink(missing_ok=True)
            os.link(data / "many-0" / file_name(0, LOG), folder / file_name(0, LOG))


# --- recompression


def recompression(seconds: float) -> Iterator[Waits]:
    """Three producers send batches of nearly 1 MB, lz4, to a topic of zstd."""
    with OwnBroker("group") as own, Client(own.bootstrap) as client:
        client.create_topics([NewTopic("good", 1), NewTopic("zstd", 3, settings={"compression.type": "zstd"})])
        yield idle("recompression", own.bootstrap)

        def produce() -> str:
            stop = time.monotonic() + seconds
            threads = [threading.Thread(target=send, args=(own.bootstrap, number, stop, sent)) for number in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return f"{sum(sent) / seconds / 1e6:.0f} MB/s of records recompressed"

        sent: list[int] = []
        yield measured("recompression", own.bootstrap, produce)


def send(bootstrap: str, partition: int, stop: float, sent: list[int]) -> None:
    """Send batches of records that compress to about a third."""
    rng = random.Random(partition)
    words = [rng.randbytes(3).hex().encode() for _ in range(300)]
    value = b" ".join(rng.choice(words) for _ in range(300_000))
    batch = one_batch(1, value, "lz4")
    with Client(bootstrap) as client:
        while time.monotonic() < stop:
            client.produce({TopicPartition("zstd", partition): batch}, acks=1)
            sent.append(len(value))


# --- checkpoints, snapshot


def checkpoints(count: int, seconds: float) -> Iterator[Waits]:
    """All partitions are open, and the high watermark of one moves before each checkpoint."""
    every = {
        "log.flush.offset.checkpoint.interval.ms": "1000",
        "replica.high.watermark.checkpoint.interval.ms": "1000",
    }
    with OwnBroker("group", more=every) as own, Client(own.bootstrap) as client:
        client.create_topics([NewTopic("good", 1), NewTopic("many", count)], timeout_ms=120_000)
        for first in range(0, count, 50):
            last = min(first + 50, count)
            client.offsets({TopicPartition("many", number): LATEST for number in range(first, last)})
        yield measured(f"checkpoints, {count} logs", own.bootstrap, lambda: time.sleep(seconds))


def snapshot(megabytes: int) -> Iterator[Waits]:
    """Copy all data of an embedded broker, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="kqueue-beside-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.beside", "--embed", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            bootstrap = process.stdout.readline().strip()
            with Client(bootstrap) as client:
                client.create_topics([NewTopic("good", 1), NewTopic("many", 4)])
                for number in range(4):
                    fill(client, TopicPartition("many", number), megabytes * 2**20 // 4)
            yield idle("snapshot", bootstrap)

            def copy() -> str:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("copy\n")
                process.stdin.flush()
                return f"{megabytes} MB in {float(process.stdout.readline()):.1f} s"

            yield measured("snapshot", bootstrap, copy)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def embed(folder: str) -> None:
    """Run an embedded broker; each line of input asks for a snapshot."""
    with kqueue.Broker(path=Path(folder) / "data") as broker:
        print(broker.bootstrap, flush=True)
        for number, _ in enumerate(sys.stdin):
            began = time.monotonic()
            broker.snapshot(Path(folder) / f"copy-{number}")
            print(time.monotonic() - began, flush=True)


# ---


def scenarios(
    only: str | None, *, full: bool, partitions: int, megabytes: int, seconds_max: float = RECOVERY_S_MAX
) -> Iterator[Waits]:
    """Yield the waits of all scenarios, or of one."""
    if only in (None, "recovery"):
        yield from recovery(partitions, MEGABYTES_FULL if full else megabytes, seconds_max)
    if only in (None, "recompression"):
        yield from recompression(SECONDS)
    if only in (None, "checkpoints"):
        yield from checkpoints(CHECKPOINTED, SECONDS)
    if only in (None, "snapshot"):
        yield from snapshot(1024 if full else 256)


def rows() -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the step for `python -m benchmarks`."""
    yield "beside heavy work", row


def row() -> Row:
    """Return the row for `python -m benchmarks`."""
    waits = list(scenarios(None, full=False, partitions=PARTITIONS, megabytes=MEGABYTES))
    figures = [Figure(each.at(0.999), f"ms p99.9, {each.name}", at_most=WAIT_MS_MAX) for each in waits]
    return Row("beside heavy work", figures, "a good client's produce and fetch of one record; benchmarks.beside")


@contextmanager
def _reported() -> Iterator[list[Waits]]:
    waits: list[Waits] = []
    yield waits
    slow = ", ".join(each.name for each in waits if not each.at(0.999) <= WAIT_MS_MAX)
    if slow:
        sys.exit(f"99.9 % of the requests must take {WAIT_MS_MAX} ms at most; not so: {slow}")


def main() -> None:
    """Run the scenarios and print the waits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("recovery", "recompression", "checkpoints", "snapshot"))
    parser.add_argument("--full", action="store_true", help=f"logs of {MEGABYTES_FULL} MB each, a snapshot of 1 GB")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--seconds-max", type=float, default=RECOVERY_S_MAX, help="how long to measure a recovery")
    parser.add_argument("--ask", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--embed", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        ask(options.ask)
    elif options.embed:
        embed(options.embed)
    else:
        sizes = {"partitions": options.partitions, "megabytes": options.megabytes}
        with _reported() as waits:
            for each in scenarios(options.only, full=options.full, **sizes, seconds_max=options.seconds_max):
                print(each, flush=True)
                waits.append(each)


if __name__ == "__main__":
    main()
