"""Tests of docs/clients.md and docs/report-card.md: they are whole and made of what was kept, and
a failure shows in them.
"""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from dataclasses import replace
from importlib import import_module
from typing import Any

from packaging.requirements import Requirement

from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

REPORT_CARD: Any = import_module("compat_tests.report_card")
BASICS, FEATURE, OTHER = "produce", "quotas (not in a)", "groups"
BACKENDS = ("memory", "disk")


def rows() -> list[list[str]]:
    """Return the cells of the table of calls, its head first."""
    text = REPORT_CARD.place(REPORT_CARD.CALL_TABLE).search(REPORT_CARD.DOCUMENT.read_text())[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def tox() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    return parser


def pins() -> dict[str, Requirement]:
    """Return the environments of `tox -m compat`, and the client of each."""
    labels = dict(line.split(" = ") for line in tox()["tox"]["labels"].strip().splitlines())
    versions = {}
    for name in labels["compat"].split(", "):
        family, factor = name.rsplit("-", 1)
        section = next(tox()[one] for one in tox().sections() if one.startswith(f"testenv:{family}-{{"))
        versions[name] = Requirement(dict(line.split(": ") for line in section["deps"].strip().splitlines())[factor])
    return versions


def run(**changes: Any) -> Any:
    first = REPORT_CARD.Run("a", "1.2", "3.11", "disk", (), {BASICS: (7, 0), FEATURE: (2, 0)})
    return replace(first, **changes)


def card(*runs: Any) -> Any:
    return REPORT_CARD.Card(runs, (BASICS, FEATURE, OTHER), BACKENDS)


def test_the_page_is_made_of_the_runs_that_were_kept() -> None:
    """Those on kqueue have no failures; what fails on Kafka is shown."""
    kept = REPORT_CARD.load()
    assert REPORT_CARD.PAGE.read_text() == REPORT_CARD.page(kept), "run python -m compat_tests.report_card"
    failed = [one.key for one in kept if any(failed for _, failed in one.counts.values())]
    assert [key for key in failed if "Apache Kafka 4.3" not in key] == []


def test_the_card_has_a_version_of_each_environment_of_tox() -> None:
    kept = {(one.client, one.version.split()[0]) for one in REPORT_CARD.load()}
    for environment, pin in pins().items():
        assert any(client == pin.name and pin.specifier.contains(version) for client, version in kept), environment


def test_the_environments_of_tox_compare_themselves_with_the_card() -> None:
    commands = [line for line in (ROOT / "tox.ini").read_text().splitlines() if "pytest compat_tests/clients" in line]
    assert all("--report=" in line for line in commands if "TESTS" not in line)


def test_each_backend_was_run_with_the_newest_version_of_some_client() -> None:
    from_runs = {one.backend for one in REPORT_CARD.load()}
    assert {"memory", "disk", "cluster", "secured", "Apache Kafka 4.3"} <= from_runs


@for_each(
    "runs,backend,feature,cell",
    [
        ([run()], "disk", BASICS, "7"),
        ([run()], "disk", OTHER, ""),
        ([run()], "memory", BASICS, "not run"),
        ([run(missing=(FEATURE,))], "disk", FEATURE, "- (1)"),
        ([run(missing=(OTHER,))], "memory", OTHER, "-"),
        ([run(counts={BASICS: (3, 1)})], "disk", BASICS, "**1 failed**"),
    ],
)
def test_a_cell_says_what_a_run_has_seen(runs: list[Any], backend: str, feature: str, cell: str) -> None:
    assert card(*runs).cell("a", "1.2", backend, feature) == cell


def test_the_page_has_versions_in_their_order_and_notes() -> None:
    text = card(run(version="1.10"), run(), run(backend="memory", counts={BASICS: (1, 2)})).markdown()
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["All", "a 1.2", "a 1.10", "Notes"]
    assert "| [a 1.2](#a-12) | **2 of 3 failed** | 9 |" in text
    assert "| [a 1.10](#a-110) | not run | 9 |" in text
    assert text.endswith("\n1. quotas: not in a\n")


def test_a_run_replaces_the_cells_that_it_has_and_is_added_to_those_made_with_it() -> None:
    kept = [run(counts={BASICS: (1, 1), FEATURE: (1, 1)}), run(backend="memory")]
    merged = REPORT_CARD.merged(kept, [run(counts={BASICS: (2, 0)}), run(counts={BASICS: (3, 0), OTHER: (1, 0)})])
    assert [(one.backend, one.counts) for one in merged] == [
        ("disk", {BASICS: (5, 0), FEATURE: (1, 1), OTHER: (1, 0)}),
        ("memory", {BASICS: (7, 0), FEATURE: (2, 0)}),
    ]


@for_each(
    "new,worse",
    [
        (run(), []),
        (run(counts={}), []),
        (run(counts={BASICS: (1, 0), FEATURE: (0, 1)}), ["a 1.2, disk: quotas: 1 failed"]),
        (run(counts={BASICS: (1, 0), OTHER: (0, 1)}), []),
        (run(counts={}, missing=(FEATURE,)), ["a 1.2, disk: quotas: is not offered any more"]),
        (run(version="1.3", counts={}, missing=(FEATURE,)), []),
        (run(version="1.3", counts={FEATURE: (1, 2)}), ["a 1.3, disk: quotas: 2 failed"]),
        (run(backend="memory", counts={FEATURE: (0, 1)}), []),
    ],
)
def test_a_run_that_contradicts_the_card_is_worse(new: Any, worse: list[str]) -> None:
    assert REPORT_CARD.worse([run()], [new]) == worse


@for_each(
    "storage,kind,backend",
    [
        ("disk", "", "disk"),
        (None, "", "memory"),
        ("cluster", "cluster", "cluster"),
        (None, "cluster", None),
        ("disk", "secured", "secured"),
        (None, "secured", "secured"),
        ("cluster", "secured cluster", "secured"),
        ("external", "external", "Apache Kafka 4.3"),
        (None, "external secured", "Apache Kafka 4.3"),
    ],
)
def test_the_backend_of_a_case(storage: str | None, kind: str, backend: str | None) -> None:
    kinds = {name: name in kind for name in ("secured", "external", "cluster")}
    assert import_module("compat_tests.report").backend_of(storage, **kinds) == backend


def test_runs_are_kept_as_they_are() -> None:
    text = REPORT_CARD.as_json([run(missing=(OTHER,)), run(version="1.1")])
    assert [REPORT_CARD.Run.from_dict(values) for values in json.loads(text)["runs"]] == [
        run(version="1.1"),
        run(missing=(OTHER,)),
    ]


def test_the_clients_of_other_languages_have_kafkas_results() -> None:
    head, *table = rows()
    assert tuple(head) == REPORT_CARD.CALL_HEAD
    assert {language for language, *_ in table} == {"Go", "Java", "JavaScript", "Rust"}
    assert all(int(made) > 0 and made == same for *_, made, same in table)
