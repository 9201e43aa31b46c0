"""The tables of docs/benchmarks.md, and some cells of README, are those of the kept figures.

`python -m benchmarks.page` writes the tables.
"""

from __future__ import annotations

import re
import statistics

from benchmarks import against
from benchmarks.comparison import Comparison
from benchmarks.page import DERIVED, KEPT, PAGE, block, drawings
from benchmarks.peers import IN_MEMORY, KAFKA_NAME, OURS
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

TEXT = PAGE.read_text(encoding="utf-8")


@for_each("name", DERIVED)
def test_the_page_has_what_was_kept(name: str) -> None:
    match = block(name).search(TEXT)
    assert match is not None
    assert match[0] == f"{match[1]}{DERIVED[name]()}{match[2]}", "run python -m benchmarks.page"


def test_the_page_shows_every_picture() -> None:
    for path, _ in drawings():
        assert path.is_file()
        assert f"](pictures/{path.name})" in TEXT


@for_each(
    "title,unit,cell",
    [("CPU time of a start as a server", "CPU s", "{:.2g} s"), ("memory when idle", "MB when idle", "{:.0f} MB")],
)
def test_readme_has_the_kept_figures(title: str, unit: str, cell: str) -> None:
    row = next(row for row in Comparison.load(KEPT / against.KEPT).rows if row.unit == unit)
    kept = [cell.format(statistics.median(row.samples[name])) for name in (OURS[0].name, KAFKA_NAME, IN_MEMORY)]
    match = re.search(rf"^\| {title} \| (.*?) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    assert [each.removesuffix(" ¹") for each in match[1].split(" | ")[:3]] == kept
