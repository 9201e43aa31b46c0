"""The table of clients and features in docs/clients.md, made of the reports of runs.

`python -m compat_tests.report_card FILE...` with what `pytest --report` wrote, one per environment.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_tests.report import FAILED, FEATURES, NOT_OFFERED, PASSED

DOCUMENT = Path(__file__).parents[1] / "docs" / "clients.md"
TABLE = re.compile(r"(?<=<!-- report card -->\n).*(?=\n<!-- end -->)", re.DOTALL)


def short(feature: str) -> str:
    """Return a feature without its remark in parentheses."""
    return feature.split(" (")[0]


HEAD = ("environment", "client", "Python", *map(short, FEATURES))


def cell(result: Mapping[str, Any]) -> str:
    """Return `7` for seven passed tests, `-` for a feature that the client does not offer."""
    texts = {PASSED: str(result.get(PASSED)), NOT_OFFERED: "-"}
    return texts.get(result["result"], f"**{result.get(FAILED) or 'not'} {FAILED if result.get(FAILED) else 'run'}**")


def row(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of an environment."""
    client = f"{report['client']} {report['version']}"
    return (
        f"`{report['environment']}`",
        client,
        report["python"],
        *(cell(report["features"][one]) for one in FEATURES),
    )


def markdown(reports: Iterable[Mapping[str, Any]]) -> str:
    """Return the table as Markdown, a row per report, ordered by client and version."""
    ordered = sorted(reports, key=lambda one: (one["client"], _numbers(one["version"]), one["environment"]))
    rows = [HEAD, tuple("---" for _ in HEAD), *map(row, ordered)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", version)]


if __name__ == "__main__":
    table = markdown([json.loads(Path(name).read_text()) for name in sys.argv[1:]])
    DOCUMENT.write_text(TABLE.sub(lambda _: table, DOCUMENT.read_text()))
