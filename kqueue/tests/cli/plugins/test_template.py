from __future__ import annotations

import ast
import tomllib
from importlib import resources

import pytest

from kqueue.cli.plugins import templates
from kqueue.cli.plugins.template import (
    KINDS,
    NAME_LENGTH_MAX,
    Kind,
    check_name,
    distribution_name,
    group_of,
    parse_author,
    render,
)
from kqueue.config.plugins import CONTRACTS
from kqueue.tests.tables import for_each

LONGEST = "a-name-of-thirty-characters-ab"


def test_every_contract_has_a_template() -> None:
    assert list(KINDS) == [contract.kind for contract in CONTRACTS]
    named = {f"{kind}-{part}.txt" for kind in KINDS for part in ("module.py", "test.py", "README.md")}
    there = {path.name for path in resources.files(templates).iterdir() if path.name.endswith(".txt")}
    assert there == {*named, "pyproject.toml.txt"}


@for_each("name", ["a", "my-name", "x2-3d", LONGEST])
@for_each("kind", KINDS.values())
def test_a_distribution_is_whole(kind: Kind, name: str) -> None:
    assert len(LONGEST) == NAME_LENGTH_MAX
    files = render(kind, name)
    stem = distribution_name(kind, name).replace("-", "_")
    assert set(files) == {"pyproject.toml", "README.md", f"{stem}.py", f"tests/test_{stem}.py"}
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["name"] == distribution_name(kind, name)
    assert "authors" not in project["project"]
    assert project["tool"]["setuptools"]["py-modules"] == [stem]
    ((group, points),) = project["project"]["entry-points"].items()
    assert group == group_of(kind)
    ((own, target),) = points.items()
    assert own == name
    module = ast.parse(files[f"{stem}.py"])
    defined = {node.name for node in module.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    defined |= {
        node.target.id for node in module.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert target.partition(":") == (stem, ":", target.partition(":")[2])
    assert target.partition(":")[2] in defined
    ast.parse(files[f"tests/test_{stem}.py"])


@for_each("kind", KINDS.values())
def test_a_readme_is_a_screen_and_lines_are_short(kind: Kind) -> None:
    files = render(kind, LONGEST)
    assert files["README.md"].count("\n") < 45
    for path, text in files.items():
        assert "$" not in text, path
        if path.endswith(".py"):
            assert max(map(len, text.splitlines())) <= 120, path


@for_each(
    "name", ["", "By-Country", "by_country", "-by", "by-", "by--country", "2nd", "ländlich", "a b", "x" * 31, "a\n"]
)
def test_invalid_plugin_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="begins with a small letter") as refused:
        check_name(name)
    assert repr(name) in str(refused.value)


def test_authors() -> None:
    assert parse_author("Ada Lovelace <ada@example.org>") == {"name": "Ada Lovelace", "email": "ada@example.org"}
    assert parse_author("Ada") == {"name": "Ada"}
    assert parse_author("<ada@example.org>") == {"email": "ada@example.org"}
    for text in ("", " ", "Ada <", "Ada <ada>", "A\nda"):
        with pytest.raises(ValueError, match="write Ada Lovelace"):
            parse_author(text)


def test_an_author_comes_through_whatever_it_holds() -> None:
    author = parse_author('Dr. "Ada" \\ Ünal 𝔄 <ada@example.org>')
    project = tomllib.loads(render(KINDS["codec"], "x", author)["pyproject.toml"])["project"]
    assert project["authors"] == [{"name": 'Dr. "Ada" \\ Ünal 𝔄', "email": "ada@example.org"}]
