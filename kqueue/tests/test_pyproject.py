"""Tests of the distribution's metadata in pyproject.toml, and of the environments in tox.ini."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kqueue.tests.source_tree import APART, ROOT, SOURCES, source_files

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def test_classifiers_requirement_and_ci_name_the_same_python_versions() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert PROJECT["requires-python"] == f">={named[0]}"
    script = (ROOT / ".ci" / "run").read_text()
    assert set(named) == set(re.findall(r"python(3\.\d+)", script))


def test_the_docs_say_what_each_core_package_is_for() -> None:
    """A new one is decided on: docs/decisions/2026-11-28-codecs-and-tables-are-no-extras.md."""
    table = (ROOT / "docs" / "install.md").read_text().partition("## What it brings")[2].partition("## Pythons")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])}
    core = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert core <= named
    assert named - core == {"cramjam", "markdown-it-py", "mdurl", "pygments"}, "what these bring"


def test_each_python_of_the_classifiers_has_an_environment_of_tox() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    pythons = re.search(r"^ *pythons = (.+)$", tox["tox"]["labels"], re.MULTILINE)
    assert pythons is not None
    named = re.findall(r"Python :: 3\.(\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert pythons[1].split(", ") == [*(f"py3{number}" for number in named), "py313t", "py314t"]


def test_the_licence_is_an_expression_not_a_classifier() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert not any("License" in one for one in PROJECT["classifiers"])
    assert sorted(PROJECT["classifiers"]) == PROJECT["classifiers"]


def test_the_unit_environment_brings_every_module_that_its_tests_import() -> None:
    """Without it a test module can't be collected, or is skipped and never runs."""
    assert not_brought(third_party().all, tox_requirements("unit")) == []


def test_the_extra_for_developers_brings_every_module_that_the_tests_import() -> None:
    assert not_brought(third_party().all, ["kqueue[dev]"]) == []


def test_the_types_environment_brings_or_ignores_every_module_that_the_tests_import() -> None:
    """mypy follows imports inside functions too."""
    ignored = [
        pattern
        for override in PYPROJECT["tool"]["mypy"]["overrides"]
        if override.get("ignore_missing_imports")
        for pattern in override["module"]
    ]
    imports = {
        name
        for environment in ("unit", *APART)
        for name in third_party(environment).imported
        if not any(fnmatchcase(name + ".", f"{pattern}*") for pattern in ignored)
    }
    assert not_brought(imports, tox_requirements("checks")) == []


def test_a_module_of_no_requirement_is_found() -> None:
    assert {"confluent_kafka", "kafka", "pytest"} <= third_party().imported
    assert {"numba", "numpy"} <= third_party().looked_up
    assert {"deltalake", "matplotlib"} <= third_party("spark-units").looked_up
    test_extra = ["kqueue[test]"]
    assert not_brought({"confluent_kafka", "click", "numpy", "psutil", "pytest"}, test_extra) == [
        "confluent_kafka",
        "numpy",
    ]
    assert not_brought({"numpy"}, ["kqueue[fast]"]) == [], "numba requires it"
    assert not_brought({"no_such_module"}, test_extra) == ["no_such_module"]


@dataclass(frozen=True)
class _ThirdParty:
    """The modules of others that kqueue's tests need, by how they name them."""

    imported: set[str]
    """In import statements, at any depth."""
    looked_up: set[str]
    """By `importorskip` or `find_spec`: without them tests are skipped."""

    @property
    def all(self) -> set[str]:
        return self.imported | self.looked_up


# A line that may import, or look up, a module; in the text of a program that a test runs it does
# neither.
_NAMES_MODULE = re.compile(r"^ *(?:import|from) +(\w+)|(?:importorskip|find_spec)\(\s*[\"'](\w+)", re.MULTILINE)


@cache
def third_party(environment: str = "unit") -> _ThirdParty:
    """Of the tests that an environment of `APART` runs; unit: of all others."""
    imported, looked_up = set[str](), set[str]()
    for file in source_files("kqueue/tests"):
        path = ROOT / file.path
        if environment != next((name for name, folder in APART.items() if path.is_relative_to(folder)), "unit"):
            continue
        # The parser takes the longest: it reads the files alone that may name another module.
        names = [set(filter(None, column)) for column in zip(*_NAMES_MODULE.findall(file.text), strict=True)]
        if not names or (_without_own(names[0]) <= imported and _without_own(names[1]) <= looked_up):
            continue
        for node in ast.walk(file.tree):
            match node:
                case ast.Import(names=aliases):
                    imported.update(alias.name.partition(".")[0] for alias in aliases)
                case ast.ImportFrom(module=str(name), level=0):
                    imported.add(name.partition(".")[0])
                case ast.Call(
                    func=ast.Attribute(attr="importorskip" | "find_spec") | ast.Name(id="importorskip" | "find_spec"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    looked_up.add(name.partition(".")[0])
    return _ThirdParty(_without_own(imported), _without_own(looked_up))


def _without_own(names: set[str]) -> set[str]:
    """The top-level modules that are neither Python's nor the project's."""
    return names - sys.stdlib_module_names - set(SOURCES)


def tox_requirements(environment: str) -> list[str]:
    """Return the packages that tox installs: the package with its extras, and the dependencies."""
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    section = tox[f"testenv:{environment}"]
    return [f"kqueue[{','.join(section['extras'].split())}]", *section["deps"].split()]


def not_brought(modules: set[str], requirements: list[str]) -> list[str]:
    """The modules of no distribution that the requirements bring, directly or through others."""
    brought = _closure(requirements)
    distributions = _distributions()
    return sorted(
        module
        for module in modules
        if not any(canonicalize_name(name) in brought for name in distributions.get(module, ()))
    )


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


def _closure(requirements: list[str]) -> set[str]:
    """The distributions that the requirements bring.

    What a distribution requires is known if it is installed. kqueue's own requirements are those
    of the source tree.
    """
    extras: dict[str, set[str]] = defaultdict(set)
    pending = [Requirement(text) for text in requirements]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        added = {"", *requirement.extras} - extras[name]
        if added:
            extras[name] |= added
            pending.extend(_requirements_of(name, added))
    return set(extras)


def _requirements_of(name: str, extras: set[str]) -> Iterator[Requirement]:
    if name == "kqueue":
        for extra in extras:
            yield from map(Requirement, PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"])
        return
    try:
        texts = requires(name) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, texts):
        if not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement
