"""ARCHITECTURE.md is true, where a machine can tell: its drawings of formats are those of the
modules, its rooms are there.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
DRAWN = [
    "records.batch", "records.record", "records.message_set",
    "log.formats.offset_index", "log.formats.time_index", "log.formats.transaction_index",
    "log.formats.producer_snapshot",
]  # fmt: skip


def drawing(module: str) -> str:
    """The indented lines of a module's docstring."""
    lines = (importlib.import_module(f"kqueue.{module}").__doc__ or "").splitlines()
    return "\n".join(line for line in lines if line.startswith("    "))


@pytest.mark.parametrize("module", DRAWN)
def test_formats_are_drawn_as_above_their_structs(module: str) -> None:
    """S3.3, S3.4: the formats of the files."""
    found = drawing(module)
    assert len(found) > 50
    assert f"\n\n{found}\n\n" in TEXT
    assert f"`{module.replace('.', '/')}`" in TEXT


def test_the_floors_are_the_folders_that_are_there() -> None:
    block = TEXT.split("    kqueue/\n", 1)[1].split("\n\n", 1)[0]
    named = set(re.findall(r"^      (\w+)/", block, re.MULTILINE))
    there = {path.parent.name for path in (ROOT / "kqueue").glob("*/__init__.py")}
    assert named == there
