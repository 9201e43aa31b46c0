"""`python -m benchmarks --against kafka,kfake`: kqueue beside other brokers, under the same loads.

In each round every broker starts in its turn on a new folder, is warmed up, takes all loads from
the same clients, and stops. Costs are the CPU time of its whole process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress

from benchmarks import end_to_end, frames, loads, peers, rdkafka
from benchmarks.comparison import Comparison, Measure
from benchmarks.loads import BATCH_RECORDS, GB, RECORD, quantiles
from benchmarks.peers import Column, Missing
from benchmarks.results import Conditions
from benchmarks.served import Served

RATE, CPU_US = Measure("requests/s", True), Measure("CPU µs/request", False)
MB_S, CPU_GB = Measure("MB/s", True), Measure("CPU s/GB", False)
P50_US, P99_US = Measure("µs p50", False), Measure("µs p99", False)
RECORDS_S = Measure("records/s", True)
CONNECTIONS = 10
DEPTH = 5


class Sizes(NamedTuple):
    """How much each load sends."""

    rounds: int = 3
    bulk_records: int = 300_000
    raw_batches: int = 200
    requests: int = 8_000
    waits: int = 1_000
    python_records: int = 10_000


QUICK = Sizes(rounds=1, bulk_records=20_000, raw_batches=20, requests=500, waits=150, python_records=500)
WARM_UP = Sizes(bulk_records=100_000, raw_batches=50, requests=8_000, waits=300)
"""A JVM compiles what it has run some ten thousand times."""


class Load(NamedTuple):
    """A load that yields a figure for each measure."""

    name: str
    measures: Sequence[Measure]
    run: Callable[[Served, Sizes], Sequence[float]]


def _bulk(served: Served, sizes: Sizes) -> Iterator[tuple[float, float]]:
    """Yield MB/s and CPU s/GB of the produce, then of the fetch."""
    topic = frames.create_topic(served.bootstrap, "bulk")
    size = sizes.bulk_records * len(RECORD)
    for load in (rdkafka.produce, rdkafka.fetch):
        seconds, cpu_s = load(served, topic, sizes.bulk_records)
        yield size / 1e6 / seconds, cpu_s / (size / GB)
    frames.delete_topic(served.bootstrap, topic)


def bulk(served: Served, sizes: Sizes) -> Sequence[float]:
    """Return MB/s and CPU s/GB of the produce, then of the fetch, through librdkafka."""
    return [figure for figures in _bulk(served, sizes) for figure in figures]


def raw_bulk(served: Served, sizes: Sizes) -> Sequence[float]:
    """Return CPU s/GB of a Produce of 1 MB, and of fetching what it stored."""
    topic = frames.create_topic(served.bootstrap, "raw")
    data = frames.batch(BATCH_RECORDS, RECORD)
    _, produce_cpu_s = loads.produce_many(served, topic, data, sizes.raw_batches, DEPTH)
    _, fetch_cpu_s, fetched = loads.fetch_all(served, topic)
    frames.delete_topic(served.bootstrap, topic)
    return produce_cpu_s / (len(data) * sizes.raw_batches / GB), fetch_cpu_s / (fetched / GB)


def _requests(count: int, taken: tuple[float, float]) -> Sequence[float]:
    seconds, cpu_s = taken
    return count / seconds, cpu_s / count * 1e6


def librdkafka_requests(acks: int) -> Callable[[Served, Sizes], Sequence[float]]:
    """Return the load of one record per request, five unanswered."""

    def run(served: Served, sizes: Sizes) -> Sequence[float]:
        return _requests(sizes.requests, rdkafka.one_record(served, sizes.requests, acks, DEPTH))

    return run


def raw_requests(served: Served, sizes: Sizes) -> Sequence[float]:
    topic = frames.create_topic(served.bootstrap, "pipelined")
    data = frames.batch(1, RECORD[:100])
    return _requests(sizes.requests, loads.produce_many(served, topic, data, sizes.requests, DEPTH))


def raw_connections(served: Served, sizes: Sizes) -> Sequence[float]:
    topic = frames.create_topic(served.bootstrap, "connections")
    return _requests(sizes.requests, loads.side_by_side(served, topic, CONNECTIONS, sizes.requests))


def one_at_a_time(served: Served, sizes: Sizes) -> Sequence[float]:
    taken_us, cpu_s = loads.one_at_a_time(served, sizes.waits)
    return quantiles(taken_us)[0], cpu_s / sizes.waits * 1e6


def produce_to_consume(served: Served, sizes: Sizes) -> Sequence[float]:
    return quantiles(loads.waits_of_a_consumer_us(served, sizes.waits))


def kafka_python(served: Served, sizes: Sizes) -> Sequence[float]:
    return [sizes.python_records / end_to_end.kafka_python(served, sizes.python_records)]


def aiokafka(served: Served, sizes: Sizes) -> Sequence[float]:
    return [sizes.python_records / end_to_end.aiokafka(served, sizes.python_records)]


def started(served: Served, _: Sizes) -> Sequence[float]:
    return served.start_s, served.cpu_s(), served.memory_bytes() / 1e6


def memory_after(served: Served, _: Sizes) -> Sequence[float]:
    return [served.memory_bytes() / 1e6]


START = Load("start", [Measure("s", False), Measure("CPU s", False), Measure("MB when idle", False)], started)
LOADS = (
    Load(
        "bulk produce and consume, librdkafka",
        [*(Measure(f"{way}, {unit}", more) for way in ("produce", "consume") for unit, more in (MB_S, CPU_GB))],
        bulk,
    ),
    Load("requests of 1 MB, raw", [Measure("produce, CPU s/GB", False), Measure("fetch, CPU s/GB", False)], raw_bulk),
    Load("one record, librdkafka, 5 in flight, acks=1", [RATE, CPU_US], librdkafka_requests(1)),
    Load("one record, librdkafka, 5 in flight, acks=all", [RATE, CPU_US], librdkafka_requests(-1)),
    Load("one record, raw, 5 in flight, acks=1", [RATE, CPU_US], raw_requests),
    Load(f"one record, raw, {CONNECTIONS} connections, acks=1", [RATE, CPU_US], raw_connections),
    Load("one record at a time, raw, acks=all", [P50_US, CPU_US], one_at_a_time),
    Load("produce to consume, raw, acks=1", [P50_US, P99_US], produce_to_consume),
    Load("kafka-python, end to end", [RECORDS_S], kafka_python),
    Load("aiokafka, end to end", [RECORDS_S], aiokafka),
    Load("memory after all loads", [Measure("MB", False)], memory_after),
)
WARMS_UP = LOADS[:8]
KEPT = "against.json"


def build() -> str:
    """Return how kqueue runs here: compiled or pure Python."""
    from kqueue.network import dispatch

    compiled = not str(dispatch.__file__).endswith(".py")
    return f"kqueue {'compiled' if compiled else 'in pure Python'}"


def begin(rounds: int, compared: Mapping[str, Sequence[str]]) -> Comparison:
    """Return a comparison without figures, that looks at the machine now."""
    pairs = {ours: list(theirs) for ours, theirs in compared.items()}
    return Comparison(time.strftime("%Y-%m-%d %H:%M"), build(), rounds, Conditions.look(), pairs)


def available(
    names: Sequence[str], columns: Callable[[str], list[Column]], result: Comparison, console: Console
) -> Iterator[Column]:
    """Yield the columns of the peers that can be run; print why another is left out."""
    for name in names:
        try:
            with console.status(f"{name}: fetching"):
                peer_columns = columns(name)
        except Missing as reason:
            result.skipped[name] = str(reason)
            console.print(f"{name}: skipped, because {reason}")
        else:
            yield from peer_columns


def compare(names: Sequence[str], sizes: Sizes, console: Console, *, compiled: bool = False) -> Comparison:
    """Measure kqueue and the peers of these names; print why one is left out.

    Args: compiled: kqueue compiled by mypyc too, which is built first.
    """
    result = begin(sizes.rounds, peers.COMPARED)
    own = {"compiled kqueue": peers.compiled_columns} if compiled else {}
    columns = [
        *peers.OURS,
        *available(list(own), lambda name: own[name](), result, console),
        *available(names, peers.columns, result, console),
    ]
    result.columns = [column.name for column in columns]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=sizes.rounds * len(columns) * (1 + len(LOADS)))
        for number in range(sizes.rounds):
            for column in columns:
                progress.update(task, description=f"round {number + 1} of {sizes.rounds}: {column.name}")
                _measure(column, sizes, result, lambda: progress.advance(task))
    result.conditions.finish()
    return result


def _measure(column: Column, sizes: Sizes, result: Comparison, advance: Callable[[], None]) -> None:
    """Run all loads on a broker, once."""
    with column.start() as served:
        result.add(column.name, START.name, START.measures, START.run(served, sizes))
        for load in WARMS_UP:
            _run(column.name, load, served, Sizes(*map(min, WARM_UP, sizes)), result)
        advance()
        for load in LOADS:
            if figures := _run(column.name, load, served, sizes, result):
                result.add(column.name, load.name, load.measures, figures)
            advance()


def _run(column: str, load: Load, served: Served, sizes: Sizes, result: Comparison) -> Sequence[float]:
    """Return the figures of a load; none: it fails on this broker, and is left out from then on."""
    if f"{column}: {load.name}" in result.failed:
        return ()
    try:
        return load.run(served, sizes)
    except Exception as error:
        result.fail(column, load.name, f"{type(error).__name__}: {error}")
        return ()
