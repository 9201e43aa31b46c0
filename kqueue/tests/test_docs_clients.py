"""Tests of the tables in docs/clients.md: they are whole, and a failure shows in them."""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib import import_module
from typing import Any

from packaging.requirements import Requirement

from kqueue.tests.source_tree import ROOT

REPORT_CARD: Any = import_module("compat_tests.report_card")


def part(name: str) -> str:
    """Return what the document has between the comments that name a table."""
    return REPORT_CARD.place(name).search(REPORT_CARD.DOCUMENT.read_text())[0]


def rows(name: str = REPORT_CARD.FEATURE_TABLE) -> list[list[str]]:
    """Return the cells of a table, its head first."""
    lines = [line for line in part(name).splitlines() if line.startswith("|") and not line.startswith("| ---")]
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


def test_the_table_has_the_environments_of_tox_and_the_features_of_the_contract() -> None:
    head, *table = rows()
    assert tuple(head) == REPORT_CARD.HEAD
    assert sorted(row[0].strip("`") for row in table) == sorted(pins())


def test_each_row_has_a_version_that_its_environment_installs() -> None:
    for environment, client, *_ in rows()[1:]:
        name, version, *_ = client.split()
        pin = pins()[environment.strip("`")]
        assert pin.name == name
        assert pin.specifier.contains(version), f"{environment} has {version}"


def test_each_feature_is_offered_by_some_client_and_none_fails() -> None:
    columns = list(zip(*(row[3:] for row in rows()[1:]), strict=True))
    assert all(re.fullmatch(r"\d+|- \(\d+\)", cell) for column in columns for cell in column)
    assert all(any(cell.isdigit() for cell in column) for column in columns)


def test_each_missing_feature_has_a_note_that_says_why() -> None:
    head, *table = rows()
    notes = {int(number): text for number, text in re.findall(r"^(\d+)\. (.*)$", part("report card"), re.MULTILINE)}
    assert sorted(notes) == list(range(1, len(notes) + 1))
    missing = {(feature, cell) for row in table for feature, cell in zip(head, row, strict=True) if cell[0] == "-"}
    assert missing
    for feature, cell in missing:
        name, reason = notes[int(cell.strip("- ()"))].split(": ", 1)
        assert name == feature
        assert reason


def test_the_clients_of_other_languages_have_kafkas_results() -> None:
    head, *table = rows(REPORT_CARD.CALL_TABLE)
    assert tuple(head) == REPORT_CARD.CALL_HEAD
    assert {language for language, *_ in table} == {"Go", "Java", "JavaScript", "Rust"}
    assert all(int(made) > 0 and made == same for *_, made, same in table)


def test_a_failure_and_a_feature_without_a_test_are_in_bold() -> None:
    cell, (feature, *_) = REPORT_CARD.cell, REPORT_CARD.REMARKED
    assert cell(feature, {"result": "failed", "passed": 3, "failed": 1}) == "**1 failed**"
    assert cell(feature, {"result": "failed", "passed": 0, "failed": 0}) == "**not run**"
    assert cell(feature, {"result": "passed", "passed": 3, "failed": 0}) == "3"
    assert cell(feature, {"result": "not offered"}) == "- (1)"
    assert cell("without a remark", {"result": "not offered"}) == "-"
