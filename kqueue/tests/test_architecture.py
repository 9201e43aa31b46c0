"""The diagrams of docs/internals/log-format.md are those of the modules, and ARCHITECTURE.md lists
the packages that exist.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
FORMATS = (ROOT / "docs" / "internals" / "log-format.md").read_text()
DRAWN = [
    "records.batch_header", "records.record", "records.message_set",
    "log.formats.offset_index", "log.formats.time_index", "log.formats.transaction_index",
    "log.formats.producer_snapshot",
]  # fmt: skip


def drawing(module: str) -> str:
    """The indented lines of a module's docstring."""
    lines = (importlib.import_module(f"kqueue.{module}").__doc__ or "").splitlines()
    return "\n".join(line for line in lines if line.startswith("    "))


@pytest.mark.parametrize("module", DRAWN)
def test_the_diagrams_of_formats_are_those_of_the_modules(module: str) -> None:
    """S3.3, S3.4: the formats of the files."""
    diagram = drawing(module)
    assert len(diagram) > 50
    assert f"\n\n{diagram}\n\n" in FORMATS
    assert f"`{module.replace('.', '/')}.py`" in FORMATS


def test_the_listed_packages_are_those_that_exist() -> None:
    block = TEXT.split("    kqueue/\n", 1)[1].split("\n\n", 1)[0]
    named = set(re.findall(r"^      (\w+)/", block, re.MULTILINE))
    there = {path.parent.name for path in (ROOT / "kqueue").glob("*/__init__.py")}
    assert named == there
