"""`python -m benchmarks.profiles [--keep]`: where the broker's time goes in each load of `against`.

`benchmarks.sampler` samples `kqueue serve` while a load is repeated, by the CPU time that it uses.
A system call counts for the function that makes it. Needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from benchmarks import against
from benchmarks.against import LOADS, Load, Sizes
from benchmarks.results import Conditions
from benchmarks.served import OwnBroker

SAMPLED_CPU_S = 1.0
"""Of the broker, for each load: some 250 samples."""
WRITTEN_TIMEOUT_S = 30
FUNCTIONS_SHOWN = 4
KEPT = "profiles.json"
SIZES = Sizes(bulk_records=200_000, raw_batches=200, requests=10_000, waits=1_000, python_records=10_000)
AREAS = {
    "network": r"kqueue/network/",
    "requests and responses": r"kqueue/(schema|wire|api|client_protocol)/|^<",
    "broker": r"kqueue/(broker|groups|metadata|replication|security|config|base)/",
    "log": r"kqueue/(log|records|storage|workers)/",
    "Python's event loop and threads": r"asyncio/|selectors\.py|threading\.py|concurrent/|queue\.py",
}
"""Where a function belongs, by its file; generated readers and writers of messages have names in
angle brackets.
"""
OTHER = "other"


@dataclass
class Profile:
    """The share of samples of each area, and of the functions that have most, in percent."""

    load: str
    areas: dict[str, float]
    functions: dict[str, float]


@dataclass
class Profiles:
    """The profiles of a run, by the flush mode of the broker."""

    started_at: str
    build: str
    conditions: Conditions
    by_flush: dict[str, list[Profile]] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Profiles:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        by_flush = {flush: [Profile(**one) for one in profiles] for flush, profiles in data["by_flush"].items()}
        return cls(data["started_at"], data["build"], Conditions(**data["conditions"]), by_flush)


class SampledBroker(OwnBroker):
    """`kqueue serve` that can be sampled."""

    def __init__(self, flush: str, samples: Path) -> None:
        self._samples = samples
        super().__init__(flush, command=["benchmarks.sampler", str(samples)])

    def begin(self) -> None:
        """Count samples from now on."""
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> list[tuple[str, str, int]]:
        """Return file, function and count since `begin`."""
        self._samples.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + WRITTEN_TIMEOUT_S
        while not self._samples.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no samples were written:\n{self.log()}")
            time.sleep(0.01)
        return [tuple(each) for each in json.loads(self._samples.read_text())]


def summarize(load: str, samples: Iterable[tuple[str, str, int]]) -> Profile:
    """Add up samples: file, function and count."""
    areas: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for file, function, count in samples:
        areas[_area(file)] += count
        functions[f"{function} ({Path(file).name})"] += count
    total = max(areas.total(), 1)
    return Profile(load, _percent(areas, total, len(areas)), _percent(functions, total, FUNCTIONS_SHOWN))


def _percent(counts: Counter[str], total: int, most: int) -> dict[str, float]:
    return {name: round(count / total * 100, 1) for name, count in counts.most_common(most)}


def _area(file: str) -> str:
    return next((area for area, pattern in AREAS.items() if re.search(pattern, file)), OTHER)


def sample(served: SampledBroker, load: Load) -> Profile:
    """Repeat a load while the broker is sampled."""
    load.run(served, SIZES)
    served.begin()
    before = served.cpu_s()
    while served.cpu_s() - before < SAMPLED_CPU_S:
        load.run(served, SIZES)
    return summarize(load.name, served.end())


def measure(console: Console) -> Profiles:
    """Profile all loads with both flush modes."""
    result = Profiles(time.strftime("%Y-%m-%d %H:%M"), against.build(), Conditions.look())
    for flush in ("kafka", "group"):
        with tempfile.TemporaryDirectory() as folder, SampledBroker(flush, Path(folder) / "samples") as served:
            loads = [load for load in LOADS if load.name != LOADS[-1].name]
            profiles = [
                sample(served, load) for load in track(loads, f"flush={flush}", console=console, transient=True)
            ]
        result.by_flush[flush] = profiles
    result.conditions.finish()
    return result


def rows(profiles: Iterable[Profile]) -> Iterator[list[str]]:
    """Yield the cells of a table: the load, the share of each area, the first functions."""
    for one in profiles:
        yield [one.load, *(_cell(one.areas, area) for area in (*AREAS, OTHER)), _names(one.functions)]


def _cell(shares: Mapping[str, float], area: str) -> str:
    return f"{shares.get(area, 0):.0f}"


def _names(functions: Mapping[str, float]) -> str:
    return ", ".join(f"`{name}` {share:.0f}" for name, share in functions.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the figures, and renew docs/benchmarks.md")
    options = parser.parse_args()
    console = Console(stderr=True)
    measured = measure(console)
    for flush, profiles in measured.by_flush.items():
        print(f"flush={flush}: {', '.join((*AREAS, OTHER))}, functions")
        for cells in rows(profiles):
            print("    " + " | ".join(cells))
    if options.keep:
        from benchmarks import page

        measured.save(page.KEPT / KEPT)
        page.main()


if __name__ == "__main__":
    main()
