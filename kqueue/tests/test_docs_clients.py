"""Tests of the table in docs/clients.md: it is whole, and a failure shows in it."""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib import import_module
from typing import Any

from packaging.requirements import Requirement

from kqueue.tests.source_tree import ROOT

REPORT_CARD: Any = import_module("compat_tests.report_card")


def rows() -> list[list[str]]:
    """Return the cells of the table, its head first."""
    lines = REPORT_CARD.TABLE.search(REPORT_CARD.DOCUMENT.read_text())[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


def tox() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    return parser


def pins() -> dict[str, Requirement]:
    """Return the environments of `tox -m compat`, and the client of each."""
    labels = dict(line.split(" = ") for line in tox()["tox"]["labels"].strip().splitlines())
    found = {}
    for name in labels["compat"].split(", "):
        family, factor = name.rsplit("-", 1)
        section = next(tox()[one] for one in tox().sections() if one.startswith(f"testenv:{family}-{{"))
        found[name] = Requirement(dict(line.split(": ") for line in section["deps"].strip().splitlines())[factor])
    return found


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
    assert all(re.fullmatch(r"\d+|-", cell) for column in columns for cell in column)
    assert all(any(cell != "-" for cell in column) for column in columns)


def test_a_failure_and_a_feature_without_a_test_are_in_bold() -> None:
    cell = REPORT_CARD.cell
    assert cell({"result": "failed", "passed": 3, "failed": 1}) == "**1 failed**"
    assert cell({"result": "failed", "passed": 0, "failed": 0}) == "**not run**"
    assert cell({"result": "passed", "passed": 3, "failed": 0}) == "3"
    assert cell({"result": "not offered"}) == "-"
