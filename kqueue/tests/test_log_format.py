"""The diagrams of docs/internals/log-format.md are those of the modules' docstrings."""

from __future__ import annotations

import importlib
from pathlib import Path

from kqueue.tests.tables import for_each

ROOT = Path(__file__).parents[2]
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


@for_each("module", DRAWN)
def test_the_diagrams_of_formats_are_those_of_the_modules(module: str) -> None:
    """S3.3, S3.4: the formats of the files."""
    diagram = drawing(module)
    assert len(diagram) > 50
    assert f"\n\n{diagram}\n\n" in FORMATS
    assert f"`{module.replace('.', '/')}.py`" in FORMATS
