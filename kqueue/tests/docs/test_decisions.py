"""Tests of `docs/decisions`: each decision is dated, listed, and linked from ARCHITECTURE.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs/decisions"
FILES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def test_each_decision_says_its_date_what_is_decided_and_why() -> None:
    assert len(FILES) > 20
    for path in FILES:
        text = path.read_text()
        date = re.fullmatch(r"(\d{4}-\d\d-\d\d)-[a-z0-9-]+", path.stem)
        assert date is not None, path.name
        assert f"Date: {date[1]}." in text, path.name
        assert re.search(r"\*\*Decision\.\*\* \S.*(?:\n.+)*\n\n\*\*Reason\.\*\* \S", text), path.name


def test_the_list_and_architecture_link_to_every_decision() -> None:
    listed = re.findall(r"\]\((\d{4}-[^)]+)\) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert listed == sorted(listed, key=lambda name: name[:10])
    assert sorted(listed) == [path.name for path in FILES]
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    assert [path.name for path in FILES if f"docs/decisions/{path.name}" not in architecture] == []


def test_no_row_of_architecture_lacks_its_decision() -> None:
    tables = (ROOT / "ARCHITECTURE.md").read_text().split("| decision | reason |\n|---|---|\n")[1:]
    rows = [row for table in tables for row in table.split("\n\n")[0].splitlines() if row.startswith("|")]
    assert [row for row in rows if "](docs/decisions/" not in row] == []
