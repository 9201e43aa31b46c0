"""`python -m benchmarks.scrapes [--partitions N]`: what metrics cost the broker, and what other
clients wait for a scrape.

A Produce of one record at a time is measured at two brokers in turn, one of which exports metrics.
Then the one that does has many partitions in use, and is scraped by another process while single
records are produced to another topic: the longest wait is the figure that matters.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import urllib.request

from benchmarks import frames
from benchmarks.loads import produce_many
from benchmarks.served import OwnBroker, free_port
from kqueue.client import LATEST, Client, NewTopic, TopicPartition

PARTITIONS = 10_000
ROUNDS, REQUESTS = 40, 1500
SCRAPES = 5
IDLE_RECORDS = 2000
OPENED_AT_ONCE = 20
WAIT_MS_MAX = 100


def metrics_settings(port: int) -> dict[str, str]:
    return {"kqueue.metrics.listener": f"127.0.0.1:{port}"}


def costs_us(rounds: int) -> tuple[list[float], list[float]]:
    """Return the CPU of a Produce of one record in each round, in microseconds: without metrics,
    and with them.
    """
    data = frames.batch(1, b"x" * 100)
    without: list[float] = []
    counted: list[float] = []
    with OwnBroker("kafka") as plain, OwnBroker("kafka", more=metrics_settings(free_port())) as metered:
        topics = {served: frames.create_topic(served.bootstrap, "scrapes") for served in (plain, metered)}
        for number in range(rounds + 1):
            # The first of two runs is the slower one: each broker is it as often as the other.
            order = [(plain, without), (metered, counted)]
            for served, costs in order if number % 2 else reversed(order):
                with served.same_core():
                    _, cpu_s = produce_many(served, topics[served], data, REQUESTS, 1)
                if number:  # the first round warms up
                    costs.append(cpu_s / REQUESTS * 1e6)
    return without, counted


class Scrape:
    """A scrape by another process: when it began and ended, and the size of its text."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scrapes", "--scrape", url], stdout=subprocess.PIPE, text=True
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def result(self) -> tuple[float, float, int]:
        began, ended, size = self._process.communicate()[0].split()
        return float(began), float(ended), int(size)


def scrape(url: str) -> None:
    """Scrape once, and print what `Scrape.result` returns."""
    began = time.time()
    with urllib.request.urlopen(url, timeout=60) as answer:
        size = len(answer.read())
    print(began, time.time(), size)


def waits_ms(partitions: int, scrapes: int, query: str) -> tuple[list[float], list[float], float, int]:
    """Return the waits of single records without a scrape, and during scrapes, in milliseconds; the
    seconds of the longest scrape, and the bytes of its text.
    """
    port = free_port()
    more = metrics_settings(port) | {"kqueue.metrics.names.max": "1000"}
    idle: list[float] = []
    beside: list[float] = []
    seconds, size = 0.0, 0
    with OwnBroker("kafka", more=more) as own, Client(own.bootstrap, timeout_ms=120_000) as client:
        client.create_topics([NewTopic("many", partitions)], timeout_ms=120_000)
        for first in range(0, partitions, OPENED_AT_ONCE):
            numbers = range(first, min(first + OPENED_AT_ONCE, partitions))
            client.offsets({TopicPartition("many", number): LATEST for number in numbers})
        topic = frames.create_topic(own.bootstrap, "beside")
        frame = frames.produce_frame(topic, frames.batch(1, b"x" * 100))
        with frames.Connection(own.bootstrap) as connection:
            idle += [_wait(connection, frame)[1] for _ in range(IDLE_RECORDS)]
            for _ in range(scrapes):
                running = Scrape(f"http://127.0.0.1:{port}/metrics{query}")
                waits: list[tuple[float, float]] = []
                while not running.is_over:
                    waits.append(_wait(connection, frame))
                    time.sleep(0.0005)
                began, ended, size = running.result()
                seconds = max(seconds, ended - began)
                beside += [ms for at, ms in waits if at < ended and at + ms / 1000 > began]
    return idle, beside, seconds, size


def _wait(connection: frames.Connection, frame: bytes) -> tuple[float, float]:
    at, began = time.time(), time.monotonic()
    connection.socket.sendall(frame)
    connection.read_reply()
    return at, (time.monotonic() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the cost of a request; 0: leave it out")
    parser.add_argument("--scrapes", type=int, default=SCRAPES, help="0: leave them out")
    parser.add_argument("--names", default="", help="those of which exporter; kqueue's by default")
    parser.add_argument("--scrape", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scrape:
        scrape(options.scrape)
        return
    if options.rounds:
        without, counted = costs_us(options.rounds)
        extra = statistics.median(one / other - 1 for one, other in zip(counted, without, strict=True))
        print(
            f"CPU of a Produce of one record: {statistics.median(without):.2f} µs without metrics, "
            f"{statistics.median(counted):.2f} µs with them; median of the difference {extra:+.1%}"
        )
    if not options.scrapes:
        return
    query = f"?names={options.names}" if options.names else ""
    idle, beside, seconds, size = waits_ms(options.partitions, options.scrapes, query)
    for name, waits in (("without a scrape", idle), ("during a scrape", beside)):
        ordered = sorted(waits)
        print(
            f"{name}: {len(waits)} records one at a time, median {statistics.median(waits):.2f} ms, "
            f"99 of 100 within {ordered[len(ordered) * 99 // 100]:.1f} ms, longest {ordered[-1]:.1f} ms"
        )
    print(f"a scrape of {options.partitions} partitions: {seconds:.2f} s, {size / 1e6:.1f} MB")
    if max(beside) > WAIT_MS_MAX:
        sys.exit(f"expected waits of at most {WAIT_MS_MAX} ms")


if __name__ == "__main__":
    main()
