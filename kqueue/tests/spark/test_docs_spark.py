"""The tables of docs/spark.md have the options that there are, as they are; its programs run in
`compat_tests/spark`.
"""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.spark.options import SECURITY_REFUSED, Option
from kqueue.spark.sink.options import OPTIONS as SINK
from kqueue.spark.sink.options import REFUSED as SINK_REFUSED
from kqueue.spark.source.options import OPTIONS as SOURCE
from kqueue.spark.source.options import REFUSED as SOURCE_REFUSED
from kqueue.tests.tables import for_each

TEXT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
MARKS = {"both": "", "stream": " (S)", "batch": " (B)"}


def row(option: Option) -> str:
    """The line that tells of an option."""
    default = (
        ""
        if option.default is None
        else f"`{str(option.default).lower() if isinstance(option.default, bool) else option.default}`"
    )
    return f"| `{option.name}`{MARKS[option.of]} | {default} | {option.doc} |"


@for_each("side, options", [("source", SOURCE), ("sink", SINK)])
def test_documented_options_are_those_of_the_code(side: str, options: tuple[Option, ...]) -> None:
    (rows,) = re.findall(rf"### Options of the {side}\n.*?\|---\|---\|---\|\n((?:\|[^\n]*\n)+)", TEXT, re.DOTALL)
    assert rows.splitlines() == [row(option) for option in options]


def refused_rows() -> list[str]:
    """The lines that tell of refused options; a last dot is a prefix."""
    rows = []
    for name, reason in sorted({**SOURCE_REFUSED, **SINK_REFUSED, **SECURITY_REFUSED}.items()):
        of = [side for side, table in (("source", SOURCE_REFUSED), ("sink", SINK_REFUSED)) if name in table]
        rows.append(f"| `{name}{'*' * name.endswith('.')}`{f' ({of[0]})' if len(of) == 1 else ''} | {reason} |")
    return rows


def test_documented_refused_options_are_those_of_the_code() -> None:
    (rows,) = re.findall(r"why it is refused \|\n\|---\|---\|\n((?:\|[^\n]*\n)+)", TEXT)
    assert rows.splitlines() == refused_rows()
