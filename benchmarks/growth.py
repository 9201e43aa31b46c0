"""`python -m benchmarks.growth [--only NAME]`: what a request costs as a broker has more to keep.

Each curve has a broker of its own for each size. Costs are the CPU time of the broker for each
request, the least of some rounds, with client and broker on one core: they hardly depend on what
else the machine does. A curve is flat if the cost at no size is more than 1.3 times that at the
first. `--log-gb 100` goes on to a log of 100 GB, which takes as much disk.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import against, frames, group_members, growth_loads, loads
from benchmarks.catch_up import CatchUpReaders
from benchmarks.frames import Connection
from benchmarks.results import Conditions, short
from benchmarks.served import OwnBroker, Served
from kqueue.client import Client, NewTopic
from kqueue.workers.process_setup import raise_open_files_limit

FLAT = 1.3
TAIL_RATIO_MAX = 1.5
MEMBERS_S_MAX = 5.0
REQUESTS = 4_000
SESSION_FETCHES = 100
SETTLE_ROUNDS, SETTLE_S, IDLE_SHARE = 40, 0.25, 0.05
ROUNDS = 5
TENS = (1, 10, 100, 1_000, 10_000)
GROUPS = (1, 10, 100, 1_000, 5_000)
MEMBERS = (10, 100, 1_000)
READERS = (0, 1, 4, 16)
LOG_MB = (1, 10, 100, 1_000)
LOG_GB = 4
CREATED_AT_ONCE = 500
TAIL_SAMPLES = 1_000
SMALL = frames.batch(1, loads.RECORD[:100])
KEPT = "growth.json"


@dataclass
class Line:
    """One figure at each size. `at_most`: the limit of the figure; `growth_max`: of its ratio to
    that of the first size; None: it is information only.
    """

    name: str
    unit: str
    growth_max: float | None = None
    at_most: float | None = None
    figures: list[float] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """The largest figure in terms of the first."""
        return max(self.figures) / self.figures[0]

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; None: there is none."""
        if self.at_most is not None:
            return max(self.figures) <= self.at_most
        return self.growth <= self.growth_max if self.growth_max is not None else None


@dataclass
class Curve:
    """Figures across sizes of one thing."""

    name: str
    across: str
    sizes: list[int]
    lines: list[Line]
    note: str = ""


@dataclass
class Growth:
    """All curves of a run."""

    started_at: str
    build: str
    conditions: Conditions
    curves: list[Curve] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Growth:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        curves = [
            Curve(**{**curve, "lines": [Line(**line) for line in curve["lines"]]}) for curve in data.pop("curves")
        ]
        conditions = Conditions(**data.pop("conditions"))
        return cls(**data, conditions=conditions, curves=curves)


def cpu_us(served: Served, run: Callable[[], object], requests: int = REQUESTS, rounds: int = ROUNDS) -> float:
    """Return the CPU µs of the broker for each request of `run`: the least of the rounds after one
    that is not measured. What creating left to do is over before.
    """
    run()
    settle(served)
    rounds_s = []
    with served.same_core():
        for _ in range(rounds):
            before = served.cpu_s()
            run()
            rounds_s.append(served.cpu_s() - before)
    return min(rounds_s) / requests * 1e6


def settle(served: Served) -> None:
    """Wait until the broker is nearly idle, for some seconds at most."""
    for _ in range(SETTLE_ROUNDS):
        before = served.cpu_s()
        time.sleep(SETTLE_S)
        if served.cpu_s() - before < SETTLE_S * IDLE_SHARE:
            return


def create(bootstrap: str, names: Sequence[str], partitions: int) -> None:
    """Create topics, some hundreds at a time."""
    with Client(bootstrap, timeout_ms=120_000) as client:
        for first in range(0, len(names), CREATED_AT_ONCE):
            client.create_topics([NewTopic(name, partitions, 1) for name in names[first : first + CREATED_AT_ONCE]])


def resident_mb(served: Served) -> float:
    return served.memory_bytes() / 1e6


# --- what each curve measures at a size; a list has a figure for each of its lines


def partitions(size: int) -> list[float]:
    with OwnBroker("kafka") as served:
        create(served.bootstrap, ["many"], size)
        several = [frames.produce_frame("many", SMALL, partition=index) for index in range(size)]
        return _produces(served, several)


def topics(size: int) -> list[float]:
    with OwnBroker("kafka") as served:
        names = [f"many-{number:05}" for number in range(size)]
        create(served.bootstrap, names, 1)
        return _produces(served, [frames.produce_frame(name, SMALL) for name in names])


def _produces(served: OwnBroker, several: list[bytes]) -> list[float]:
    """Produce to the first, then to all in turn; return CPU µs of both, and MB."""
    with Connection(served.bootstrap) as connection:
        growth_loads.in_turn(connection, several, len(several))  # opens the logs
        to_one = cpu_us(served, lambda: growth_loads.in_turn(connection, several[:1], REQUESTS))
        to_all = cpu_us(served, lambda: growth_loads.in_turn(connection, several, REQUESTS))
    return [to_one, to_all, resident_mb(served)]


def connections(size: int) -> list[float]:
    more = {"max.connections": str(2 * TENS[-1])}
    with OwnBroker("kafka", more=more) as served, growth_loads.idle_connections(served, size):
        topic = frames.create_topic(served.bootstrap, "busy")
        with Connection(served.bootstrap) as connection:
            one = cpu_us(
                served, lambda: growth_loads.in_turn(connection, [frames.produce_frame(topic, SMALL)], REQUESTS)
            )
        ten = cpu_us(served, lambda: loads.side_by_side(served, topic, 10, REQUESTS))
        return [one, ten, resident_mb(served)]


def groups(size: int) -> list[float]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with OwnBroker("kafka", more=settings) as served, Connection(served.bootstrap) as connection:
        topic = frames.create_topic(served.bootstrap, "consumed")
        members = [group_members.join_alone(connection, f"group-{number:05}") for number in range(size)]
        heartbeats = [group_members.heartbeat(member) for member in members]
        commits = [group_members.commit(member, topic) for member in members]
        return [
            cpu_us(served, lambda: growth_loads.in_turn(connection, heartbeats, REQUESTS)),
            cpu_us(served, lambda: growth_loads.in_turn(connection, commits, REQUESTS)),
            resident_mb(served),
        ]


def members(size: int) -> list[float]:
    with OwnBroker("kafka") as served:
        return list(group_members.rebalance(served, size))


def session(size: int) -> list[float]:
    with OwnBroker("kafka") as served:
        create(served.bootstrap, ["many"], size)
        with growth_loads.FetchSession(served.bootstrap, "many", size) as fetches:
            return [cpu_us(served, lambda: fetches.run(SESSION_FETCHES), SESSION_FETCHES), resident_mb(served)]


def log_size(size: int) -> list[float]:
    """The size in MB."""
    data = frames.batch(loads.BATCH_RECORDS, loads.RECORD)
    count = max(1, size * 1_000_000 // len(data))
    with tempfile.TemporaryDirectory(prefix="kqueue-benchmark-") as folder:
        with OwnBroker("kafka", Path(folder) / "data") as served:
            topic = frames.create_topic(served.bootstrap, "long")
            loads.produce_many(served, topic, data, count, loads.BULK_DEPTH)
            end = frames.end_offset(served.bootstrap, topic)
            with Connection(served.bootstrap) as connection:
                produce = [frames.produce_frame(topic, SMALL)]
                produced = cpu_us(served, lambda: growth_loads.in_turn(connection, produce, REQUESTS))
                fetched = cpu_us(served, lambda: growth_loads.fetch_anywhere(connection, topic, end, 500), 500)
        with OwnBroker("kafka", Path(folder) / "data") as served:
            frames.end_offset(served.bootstrap, topic)
            return [produced, fetched, served.cpu_s(), resident_mb(served)]


def tail(size: int) -> list[float]:
    """Return p50 and p99 of a tail reader beside so many that catch up."""
    with OwnBroker("kafka") as served:
        topic = frames.create_topic(served.bootstrap, "old")
        data = frames.batch(loads.BATCH_RECORDS, loads.RECORD)
        loads.produce_many(served, topic, data, 500, loads.BULK_DEPTH)
        with CatchUpReaders(served.bootstrap, topic, size) as readers:
            p50, p99 = loads.quantiles(loads.waits_of_a_consumer_us(served, TAIL_SAMPLES))
        return [p50, p99, readers.megabytes_per_s]


def connections_max() -> int:
    """Return how many connections a broker and its clients keep open within the limit on files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 7 // 10


def _us(name: str) -> Line:
    return Line(name, "CPU µs", growth_max=FLAT)


def _mb() -> Line:
    return Line("resident memory", "MB")


Measured = tuple[Curve, Callable[[int], list[float]]]


def curves(log_gb: int) -> Iterator[Measured]:
    """Yield each curve, without its figures, and what measures a size."""
    to_all = [_us("Produce to one"), _us("Produce to all in turn"), _mb()]
    yield Curve("partitions", "partitions of a topic", list(TENS), to_all), partitions
    yield Curve("topics", "topics of one partition", list(TENS), [Line(**asdict(line)) for line in to_all]), topics
    yield (
        Curve(
            "connections",
            "idle connections",
            [min(size, connections_max()) for size in TENS],
            [_us("Produce of one connection"), _us("Produce of ten connections"), _mb()],
        ),
        connections,
    )
    yield (
        Curve("groups", "groups of one member", list(GROUPS), [_us("Heartbeat"), _us("OffsetCommit"), _mb()]),
        groups,
    )
    yield (
        Curve(
            "members",
            "members of a group",
            list(MEMBERS),
            [
                Line("all join", "s", at_most=MEMBERS_S_MAX),
                Line("rebalance after one left", "s", at_most=MEMBERS_S_MAX),
                Line("CPU of the broker for both", "s"),
            ],
            "settings as shipped; the members are connections of one process",
        ),
        members,
    )
    yield (
        Curve("session", "partitions of a fetch session, one of which changes", list(TENS),
              [_us("Produce and the waiting Fetch"), _mb()]),
        session,
    )  # fmt: skip
    yield (
        Curve(
            "log",
            "MB of log",
            [*(size for size in LOG_MB if size < log_gb * 1000), log_gb * 1000],
            [_us("Produce"), _us("Fetch anywhere"), Line("start after a clean stop", "CPU s", growth_max=FLAT), _mb()],
        ),
        log_size,
    )
    yield (
        Curve(
            "tail",
            "readers that catch up as fast as they can",
            list(READERS),
            [
                Line("produce to consume, p50", "µs"),
                Line("produce to consume, p99", "µs", growth_max=TAIL_RATIO_MAX),
                Line("read by those that catch up", "MB/s"),
            ],
            "all on the same cores",
        ),
        tail,
    )


def measure(console: Console, build: str, only: str | None = None, log_gb: int = LOG_GB, size_max: int = 0) -> Growth:
    """Measure all curves, or the one of this name. `size_max`: leave out larger sizes; 0: none."""
    raise_open_files_limit()
    result = Growth(time.strftime("%Y-%m-%d %H:%M"), build, Conditions.look())
    chosen = [(curve, run) for curve, run in curves(log_gb) if only in (None, curve.name)]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(len(curve.sizes) for curve, _ in chosen))
        for curve, run in chosen:
            curve.sizes = [size for size in curve.sizes if not size_max or size <= size_max]
            try:
                for size in curve.sizes:
                    progress.update(task, description=f"{size:,} {curve.across}")
                    for line, figure in zip(curve.lines, run(size), strict=True):
                        line.figures.append(figure)
                    progress.advance(task)
            except Exception as error:
                console.print(f"{curve.across}: left out, because at {size:,} {type(error).__name__}: {error}")
                continue
            result.curves.append(curve)
            show(curve, console)
    result.conditions.finish()
    return result


def rows(curve: Curve) -> Iterator[list[str]]:
    """Yield the cells of a table: the figure at each size, and how far it grows."""
    for line in curve.lines:
        limit = f"<= {line.at_most:g} {line.unit}" if line.at_most else ""
        if line.growth_max:
            limit = f"{line.growth:.2f} times (<= {line.growth_max:g})"
        verdict = {None: limit, True: limit, False: f"**{limit}**"}[line.passed]
        yield [f"{line.name}, {line.unit}", *(short(figure) for figure in line.figures), verdict]


def show(curve: Curve, console: Console) -> None:
    console.print(f"{curve.across}: {', '.join(f'{size:,}' for size in curve.sizes)}")
    for cells in rows(curve):
        console.print("    " + ", ".join(cells).replace("*", ""))


def replaced(grown: Growth, path: Path) -> Growth:
    """Return the kept curves, with those of `grown` in place of their former figures."""
    if not path.exists():
        return grown
    kept = Growth.load(path)
    by_name = {curve.name: curve for curve in grown.curves}
    grown.curves = [by_name.pop(curve.name, curve) for curve in kept.curves] + list(by_name.values())
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[curve.name for curve, _ in curves(LOG_GB)])
    parser.add_argument("--log-gb", type=int, default=LOG_GB, help="the largest log")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="put the figures in place of the curve's in this file"
    )
    options = parser.parse_args()
    grown = measure(Console(), against.build(), options.only, options.log_gb)
    if options.json:
        replaced(grown, options.json).save(options.json)


if __name__ == "__main__":
    main()
