"""`python -m benchmarks.page`: writes the tables and pictures of docs/benchmarks.md from the kept
figures. `python -m benchmarks` does so after a run with `--keep`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import against, against_clusters, growth, pictures, profiles
from benchmarks.comparison import Comparison, figures_table, notes, ratios_table
from benchmarks.growth import Growth
from benchmarks.profiles import Profiles
from benchmarks.results import Conditions, short

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "kept"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
KIT_KEPT = "kit.json"


def _from(build: str, started_at: str, conditions: Conditions) -> str:
    """Return where figures are from."""
    return f"Measured {started_at[:10]}, {build}.\n{conditions}"


def _comparison(name: str) -> str:
    """Return the tables of a comparison, and where its figures are from."""
    comparison = Comparison.load(KEPT / name)
    left_out = notes(comparison.skipped, "skipped") + notes(comparison.failed, "left out")
    return (
        f"{_from(comparison.build, comparison.started_at, comparison.conditions)}\n\nMedians of {comparison.rounds} "
        f"rounds:\n\n{figures_table(comparison)}\n"
        "How many times better, with the least and the most of the rounds:\n\n"
        f"{ratios_table(comparison)}" + (f"\n{left_out}" if left_out else "")
    )


def _growth() -> str:
    """Return a table for each curve."""
    grown = Growth.load(KEPT / growth.KEPT)
    parts = [_from(grown.build, grown.started_at, grown.conditions) + "\n"]
    for curve in grown.curves:
        head = [curve.across, *(f"{size:,}" for size in curve.sizes), "growth, and limit"]
        lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        lines += [f"| {' | '.join(cells)} |" for cells in growth.rows(curve)]
        parts.append("\n".join(lines) + "\n" + (f"\n{curve.note[0].upper()}{curve.note[1:]}.\n" if curve.note else ""))
    return "\n".join(parts)


def _kit() -> str:
    """Return what a test costs, one line for each figure."""
    data = json.loads((KEPT / KIT_KEPT).read_text())
    lines = [_from("kqueue", data["started_at"], Conditions(**data["conditions"])), "", "| | | |", "|---|---|---|"]
    for row in data["rows"]:
        for number, figure in enumerate(row["figures"]):
            lines.append(f"| {row['name'] if number == 0 else ''} | {short(figure['value'])} | {figure['unit']} |")
    return "\n".join(lines) + "\n"


def _profiles() -> str:
    """Return a table for each flush mode: the share of each area, in percent of the CPU time."""
    run = Profiles.load(KEPT / profiles.KEPT)
    parts = [_from(run.build, run.started_at, run.conditions) + "\n"]
    head = ["", *profiles.AREAS, profiles.OTHER, "functions with most"]
    for flush, several in run.by_flush.items():
        lines = [f"| {' | '.join([f'flush={flush}', *head[1:]])} |", "|---" * len(head) + "|"]
        parts.append("\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in profiles.rows(several))]) + "\n")
    return "\n".join(parts)


DERIVED: dict[str, Callable[[], str]] = {
    "against": lambda: _comparison(against.KEPT),
    "kit": _kit,
    "growth": _growth,
    "profiles": _profiles,
    "workers": lambda: _comparison(against_clusters.WORKERS_KEPT),
    "replication": lambda: _comparison(against_clusters.REPLICATION_KEPT),
}


def block(name: str) -> re.Pattern[str]:
    """Match a derived part of the page, with its markers."""
    return re.compile(rf"(<!-- {name}: derived -->\n\n).*?(\n<!-- end -->)", re.DOTALL)


def drawings() -> Iterator[tuple[Path, Callable[[Path], None]]]:
    """Yield each picture's file, and what draws it."""
    yield PICTURES / "benchmarks-ratios.png", lambda path: pictures.ratios(Comparison.load(KEPT / against.KEPT), path)
    yield PICTURES / "benchmarks-growth.png", lambda path: pictures.growth(Growth.load(KEPT / growth.KEPT), path)


def main() -> None:
    """Write the page and its pictures."""
    text = PAGE.read_text(encoding="utf-8")
    for name, derive in DERIVED.items():
        text = block(name).sub(lambda match, derive=derive: f"{match[1]}{derive()}{match[2]}", text)  # type: ignore[misc]
    PAGE.write_text(text, encoding="utf-8")
    for path, draw in drawings():
        draw(path)


if __name__ == "__main__":
    main()
