"""Tests of the distribution's metadata in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_classifiers_requirement_and_ci_name_the_same_python_versions() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert PROJECT["requires-python"] == f">={named[0]}"
    script = (ROOT / ".ci" / "run").read_text()
    assert set(named) == set(re.findall(r"python(3\.\d+)", script))


def test_the_licence_is_an_expression_not_a_classifier() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert not any("License" in one for one in PROJECT["classifiers"])
    assert sorted(PROJECT["classifiers"]) == PROJECT["classifiers"]
