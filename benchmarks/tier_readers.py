"""What good clients wait beside readers of the tier, whose store answers or hangs."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.beside import GoodClient, Waits, fill, idle, wait_for
from benchmarks.results import Figure, Row
from kqueue.base.errors import KqueueError
from kqueue.base.settings import MiB
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.demo.broker_processes import BrokerProcess, free_ports

COLD = TopicPartition("cold", 0)
BYTES = 24 * MiB
SEGMENT_BYTES = 1 * MiB
READERS = 4
SECONDS = 8.0
P99_TIMES_MAX = 1.2
"""Clients at the end of a log wait at most this many times as long beside readers of a store that
hangs as without them.
"""
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": str(2 * SEGMENT_BYTES),
    "segment.bytes": str(SEGMENT_BYTES),
}
SETTINGS = {
    "kqueue.flush": "kafka",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": 500,
    "log.retention.check.interval.ms": 500,
    "log.segment.delete.delay.ms": 100,
}


def row() -> Row:
    """Return the row for `python -m benchmarks`."""
    waits = list(measured())
    _, alone, hung = (each.at(0.99) for each in waits)
    figures = [Figure(each.at(0.99), f"ms p99, {each.name}") for each in waits]
    figures.append(Figure(hung / alone, "times as long beside a store that hangs", at_most=P99_TIMES_MAX))
    return Row("beside readers of the tier", figures, f"a client's produce and fetch of one record; {READERS} readers")


def measured() -> Iterator[Waits]:
    """Yield the waits beside readers of a folder, alone, and beside readers of one that hangs."""
    with tempfile.TemporaryDirectory(prefix="kqueue-tier-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        settings = {"kqueue.tier.url": (folder / "tier").as_uri(), **SETTINGS}
        broker = BrokerProcess(1, folder / "broker", free_ports(1)[0], settings)
        stack.callback(broker.kill)
        broker.start()
        with Client(broker.bootstrap) as client:
            client.create_topics([NewTopic("good", 1), NewTopic("cold", 1, settings=TIERED)])
            fill(client, COLD, BYTES)
        cold = broker.data / "cold-0"
        wait_for(lambda: len(list(cold.glob("*.log"))) <= 5 or None)
        yield _beside("a folder", broker.bootstrap)
        broker.stop()
        port = stack.enter_context(_silent_server())
        url = f"s3://bucket/tier?endpoint=http://127.0.0.1:{port}&region=us-east-1"
        broker.settings["kqueue.tier.url"] = url
        with _credentials():
            broker.start()
        yield idle("tier", broker.bootstrap)
        yield _beside("a store that hangs", broker.bootstrap)


def _beside(store: str, bootstrap: str) -> Waits:
    """Return the waits of a good client while readers read from the start again and again."""
    ended, read = threading.Event(), [0] * READERS

    def run(number: int) -> None:
        with Client(bootstrap) as client:
            offset = 0
            while not ended.is_set():
                with contextlib.suppress(KqueueError):
                    fetched = client.fetch({COLD: offset}, max_wait_ms=100)[COLD]
                    read[number] += len(fetched.records)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(READERS)]
    with GoodClient(bootstrap) as good:
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        ended.set()
    for thread in threads:
        thread.join()
    return Waits(f"beside {store}", good.ms, f"{sum(read) / SECONDS / 1e6:.0f} MB/s read from the tier")


@contextlib.contextmanager
def _credentials() -> Iterator[None]:
    """Give processes that begin meanwhile keys of a store that is not read."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "none"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _silent_server() -> Iterator[int]:
    """Yield a port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        yield server.getsockname()[1]


def main() -> None:
    """Print all waits."""
    for waits in measured():
        print(waits)


if __name__ == "__main__":
    main()
