"""Figures, their targets, and their tables."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

BUSY_PERCENT = 5.0


@dataclass
class Figure:
    """One number. `at_most`, `at_least`: its target; without either it is information only."""

    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None

    @property
    def aim(self) -> str:
        if self.at_most is not None:
            return f"<= {short(self.at_most)}"
        return f">= {short(self.at_least)}" if self.at_least is not None else ""


@dataclass
class Row:
    """One measurement with its figures; `note` says how it was taken."""

    name: str
    figures: list[Figure]
    note: str = ""


@dataclass
class Machine:
    """The machine of the figures, and other busy processes on it."""

    cpus: int
    python: str
    system: str
    load: list[float]
    busy: list[str]

    @classmethod
    def look(cls, ours: set[int]) -> Machine:
        return cls(
            os.cpu_count() or 0,
            platform.python_version(),
            platform.platform(),
            list(os.getloadavg()),
            busy_processes(ours),
        )


@dataclass
class Conditions:
    """Where kept figures are from. The loads are averages of a minute."""

    cpus: int
    python: str
    system: str
    load_before: float
    load_after: float = float("nan")

    @classmethod
    def look(cls) -> Conditions:
        return cls(os.cpu_count() or 0, platform.python_version(), platform.system(), os.getloadavg()[0])

    def finish(self) -> None:
        """Look at the load after the run."""
        self.load_after = os.getloadavg()[0]

    def __str__(self) -> str:
        return (
            f"The machine: {self.cpus} cores, {self.system}, Python {self.python}; "
            f"its load {self.load_before:.1f} before and {self.load_after:.1f} at the end."
        )


@dataclass
class Report:
    broker: str
    started_at: str
    before: Machine
    after: Machine | None = None
    rows: list[Row] = field(default_factory=list)
    conditions: Conditions = field(default_factory=Conditions.look)


def busy_processes(ours: set[int], seconds: float = 0.5) -> list[str]:
    """Return processes that use a noticeable share of a core, without `ours`, busiest first."""
    watched = {}
    for process in psutil.process_iter(["pid", "name"]):
        if process.pid not in ours:
            try:
                process.cpu_percent()
                watched[process.pid] = process
            except psutil.Error:
                continue
    time.sleep(seconds)
    usage = []
    for process in watched.values():
        try:
            usage.append((process.cpu_percent(), process.info["name"] or "?"))
        except psutil.Error:
            continue
    return [f"{name} {percent:.0f}%" for percent, name in sorted(usage, reverse=True)[:5] if percent >= BUSY_PERCENT]


def short(value: float | None) -> str:
    """Return a figure in three digits; ? for none."""
    if value is None or value != value:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show(report: Report, console: Console) -> None:
    table = Table(title=f"{report.broker}, {report.started_at}", title_justify="left")
    for heading, justify in (("", "left"), ("measured", "right"), ("", "left"), ("aim", "right"), ("", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in report.rows:
        for number, figure in enumerate(row.figures):
            verdict = {None: "", True: "[green]ok[/]", False: "[red]missed[/]"}[figure.passed]
            name = row.name if number == 0 else (f"  [dim]{row.note}[/]" if number == 1 else "")
            table.add_row(name, short(figure.value), figure.unit, figure.aim, verdict)
        if row.note and len(row.figures) == 1:
            table.add_row(f"  [dim]{row.note}[/]")
        table.add_section()
    console.print(table)
    for when, machine in (("before", report.before), ("after", report.after)):
        if machine is not None:
            load = " ".join(f"{value:.2f}" for value in machine.load)
            busy = ", ".join(machine.busy) or "none"
            console.print(f"{when}: load {load} on {machine.cpus} cores; others busy: {busy}")


def print_rows(rows: Iterable[Row]) -> None:
    """Print each row when it is measured, without targets."""
    for row in rows:
        figures = ", ".join(f"{short(figure.value)} {figure.unit}" for figure in row.figures)
        print(f"{row.name}: {figures}{f' ({row.note})' if row.note else ''}", flush=True)


def save(report: Report, path: Path) -> None:
    data = asdict(report)
    for row, source in zip(data["rows"], report.rows, strict=True):
        for figure, from_ in zip(row["figures"], source.figures, strict=True):
            figure["passed"] = from_.passed
    path.write_text(json.dumps(data, indent=2) + "\n")


def keep(report: Report, path: Path) -> None:
    """Keep the rows for docs/benchmarks.md."""
    data = asdict(report)
    kept = {name: data[name] for name in ("started_at", "conditions", "rows")}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")
