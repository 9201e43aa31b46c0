"""The tables of docs/clients.md, made of the reports of runs.

`python -m compat_tests.report_card FILE...` with what `pytest --report` wrote, one per environment,
and with what `pytest --call-report` wrote. A table without a report stays as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_tests.call_report import CALLS, CLIENT, LANGUAGE, MADE, SAME
from compat_tests.report import FAILED, FEATURES, NOT_OFFERED, PASSED

DOCUMENT = Path(__file__).parents[1] / "docs" / "clients.md"
FEATURE_TABLE, CALL_TABLE = "report card", "calls"


def short(feature: str) -> str:
    """Return a feature without its remark in parentheses."""
    return feature.split(" (")[0]


def remark(feature: str) -> str:
    """Return the remark: why some clients do not offer the feature. Empty: there is none."""
    return feature.partition(" (")[2].removesuffix(")")


REMARKED = [one for one in FEATURES if remark(one)]
CALL_HEAD = ("language", "client", "calls", "with Kafka's result")
HEAD = ("environment", "client", "Python", *map(short, FEATURES))


def cell(feature: str, result: Mapping[str, Any]) -> str:
    """Return `7` for seven passed tests, `- (2)` for a feature that the client does not offer for
    the reason of note 2.
    """
    note = f" ({REMARKED.index(feature) + 1})" if feature in REMARKED else ""
    texts = {PASSED: str(result.get(PASSED)), NOT_OFFERED: f"-{note}"}
    return texts.get(result["result"], f"**{result.get(FAILED) or 'not'} {FAILED if result.get(FAILED) else 'run'}**")


def row(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of an environment."""
    client = f"{report['client']} {report['version']}"
    return (
        f"`{report['environment']}`",
        client,
        report["python"],
        *(cell(one, report["features"][one]) for one in FEATURES),
    )


def markdown(reports: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of features, a row per report, by client and version; and its notes."""
    ordered = sorted(reports, key=lambda one: (one["client"], _numbers(one["version"]), one["environment"]))
    notes = [f"{number}. {short(one)}: {remark(one)}" for number, one in enumerate(REMARKED, 1)]
    return "\n".join([_table(HEAD, map(row, ordered)), "", *notes])


def call_markdown(clients: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the clients that make every call of theirs, ordered by language."""
    columns = (LANGUAGE, CLIENT, MADE, SAME)
    return _table(CALL_HEAD, sorted(tuple(str(one[name]) for name in columns) for one in clients))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, tuple("---" for _ in head), *rows))


def place(name: str) -> re.Pattern[str]:
    """Return the pattern of what is between the comments that name a table."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", version)]


def main(names: Iterable[str]) -> None:
    reports = [json.loads(Path(name).read_text()) for name in names]
    features = [one for one in reports if "features" in one]
    clients = [client for one in reports for client in one.get(CALLS, ())]
    text = DOCUMENT.read_text()
    if features:
        text = place(FEATURE_TABLE).sub(lambda _: markdown(features), text)
    if clients:
        text = place(CALL_TABLE).sub(lambda _: call_markdown(clients), text)
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
