"""`python -m benchmarks.guard`: counts what requests cost, in figures that are the same in every
run, and compares them with those of `guard.json`.

The exit status is 1 if a figure is more than a tenth above the kept one. `--accept REASON` keeps
the measured figures instead, with the reason.

Each load runs with a broker of its own, once for each meter (`counts`): calls of functions and of
the system, instructions of the interpreter, memory. The client and the broker take turns, and the
clocks stand still (`stepped`), so nothing depends on the machine.

Not counted: instructions of the processor, since most machines let no process count them, and
builds of Python differ; `futex`, which depends on the thread that runs first; blocks of memory that
are freed at once, of which Python has no count. A copy of records shows in the loads of 1 MB.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.counts import C_CALLS, INSTRUCTIONS, LEFT, PEAK, PYTHON_CALLS, Counts

FILE = Path(__file__).with_name("guard.json")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SHARE_MAX = 1.1
ALLOWANCE = {LEFT: 0.5, PEAK: 64.0}
"""Besides a tenth, of what may be 0 and vary by a little."""
COLUMNS = (PYTHON_CALLS, C_CALLS, INSTRUCTIONS, PEAK, LEFT)
Figures = dict[str, Counts]
"""What a request costs, by the title of its load."""


def stop_clocks() -> None:
    """Stop the clocks that kqueue reads, before its modules are imported. Reading them costs what
    it does: a call of a C function.
    """
    from kqueue.base import clock

    clock.monotonic_s = repeat(time.monotonic()).__next__
    clock.monotonic_ns = repeat(time.monotonic_ns()).__next__
    clock._realtime_ns = repeat(time.time_ns()).__next__


def measure(only: str, console: Console) -> Figures:
    """Return the figures of the loads whose title contains `only`; print why one is left out."""
    stop_clocks()
    from benchmarks.guard_loads import LOADS  # after that

    figures: Figures = {}
    for load in LOADS:
        if only in load.title:
            if reason := load.why_skipped():
                console.print(f"{load.title}: skipped, because {reason}")
            else:
                figures[load.title] = _rounded(load.measure())
    return figures


def _rounded(counts: Counts) -> Counts:
    return {name: round(count, 2) for name, count in counts.items()}


def excesses(measured: Figures, kept: Figures) -> Iterator[str]:
    """Yield a sentence for each figure that is more than a tenth above the kept one."""
    for title, counts in measured.items():
        if title not in kept:
            yield f"{title}: no figures are kept"
            continue
        for name, count in counts.items():
            before = kept[title].get(name, 0)
            if count > before * SHARE_MAX + ALLOWANCE.get(name, 0):
                yield f"{title}: {name}: {count:g}, kept {before:g}"


def why_skipped(kept: dict[str, Any]) -> str:
    """Return why nothing can be compared here; "": all can be."""
    if sys.implementation.name != "cpython" or not sys.platform.startswith("linux"):
        return f"the figures are those of CPython on Linux, this is {sys.implementation.name} on {sys.platform}"
    if VERSION not in kept["figures"]:
        return f"no figures of Python {VERSION} are kept; --accept keeps them"
    return ""


def show(measured: Figures, kept: Figures, console: Console) -> None:
    """Print the figures, and the kept ones where they differ."""
    table = Table(title=f"for each request, Python {VERSION} (kept, where it differs)", title_justify="left")
    for heading in ("", *COLUMNS, "system calls"):
        table.add_column(heading, justify="right" if heading in COLUMNS else "left")
    for title, counts in measured.items():
        before = kept.get(title, {})
        cells = [_cell(counts.get(name), before.get(name)) for name in COLUMNS]
        calls = ", ".join(
            f"{name} {_cell(counts.get(name, 0), before.get(name, 0))}"
            for name in sorted(counts.keys() | before.keys())
            if name not in COLUMNS
        )
        table.add_row(title, *cells, calls)
    console.print(table)


def _cell(count: float | None, before: float | None) -> str:
    if count is None:
        return "-"
    return f"{count:g}" if before in (None, count) else f"{count:g} ({before:g})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--accept", metavar="REASON", help="keep the measured figures, and this reason for the change")
    parser.add_argument("--only", metavar="TEXT", default="", help="the loads whose title contains this")
    options = parser.parse_args(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=180)
    kept: dict[str, Any] = json.loads(FILE.read_text())
    skipped = why_skipped(kept)
    if skipped and not options.accept:
        console.print(f"skipped, because {skipped}")
        return 0
    figures: Figures = kept["figures"].setdefault(VERSION, {})
    measured = measure(options.only, console)
    show(measured, figures, console)
    if options.accept:
        figures.update(measured)
        kept["reasons"].append(f"{time.strftime('%Y-%m-%d')}: {options.accept}")
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    sentences = list(excesses(measured, figures))
    for sentence in sentences:
        console.print(f"more than a tenth above what is kept: {sentence}")
    if sentences:
        console.print("If that has a reason: python -m benchmarks.guard --accept REASON")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
