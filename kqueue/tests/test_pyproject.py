"""What pyproject.toml says of the distribution is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_pythons_of_the_classifiers_are_those_that_may_be_used_and_that_the_checks_look_for() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert PROJECT["requires-python"] == f">={named[0]}"
    script = (ROOT / ".ci" / "run").read_text()
    assert set(named) == set(re.findall(r"python(3\.\d+)", script))


def test_the_licence_is_an_expression_and_no_classifier() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert not any("License" in one for one in PROJECT["classifiers"])
    assert sorted(PROJECT["classifiers"]) == PROJECT["classifiers"]
