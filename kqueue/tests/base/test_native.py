"""Tests of the hot modules that `setup.py` compiles: they keep what mypyc asks for, and all of them
are compiled where KQUEUE_COMPILE=1 asks for it.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.base.native import is_compiled
from kqueue.tests.source_tree import ROOT


@pytest.fixture(scope="module")
def names(pytestconfig: pytest.Config) -> list[str]:
    """Names of the modules to compile."""
    assert pytestconfig.inipath is not None
    listed: list[str] = tomllib.loads(pytestconfig.inipath.read_text())["tool"]["kqueue"]["compiled"]
    return listed


def _tree(name: str) -> ast.Module:
    spec = find_spec(name)
    assert spec is not None, f"there is no module {name}"
    assert spec.origin is not None
    return ast.parse((Path(spec.origin).parent / f"{name.rpartition('.')[2]}.py").read_text())


def _classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_listed_modules_exist_and_are_sorted(names: list[str]) -> None:
    assert names == sorted(set(names))
    assert [name for name in names if not find_spec(name)] == []


def test_hot_modules_are_compiled_all_or_none(names: list[str]) -> None:
    """Half of them would be slower than none: calls between them would convert arguments."""
    expected = os.environ.get("KQUEUE_COMPILE") == "1" or is_compiled()
    assert [name for name in names if is_compiled(name) is not expected] == []


def test_attributes_that_are_deleted_are_declared_so(names: list[str]) -> None:
    missing = []
    for name in names:
        for cls in _classes(_tree(name)):
            declared = [
                ast.literal_eval(node.value)
                for node in cls.body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__deletable__"
            ]
            missing += [
                f"{name}.{cls.name}.{target.attr}"
                for node in ast.walk(cls)
                if isinstance(node, ast.Delete)
                for target in node.targets
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
                if target.attr not in sum(declared, ())
            ]
    assert missing == []


def test_fields_are_of_types_that_exist_at_run_time(names: list[str]) -> None:
    """mypyc looks up what a NamedTuple or a dataclass names, and crashes where it is missing."""
    wrong = []
    for name in names:
        tree = _tree(name)
        blocks = (node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for_types = {
            alias.asname or alias.name
            for block in blocks
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for cls in _classes(tree):
            if "NamedTuple" in map(ast.unparse, cls.bases) or "dataclass" in " ".join(
                map(ast.unparse, cls.decorator_list)
            ):
                fields = (node.annotation for node in cls.body if isinstance(node, ast.AnnAssign))
                used = {part.id for field in fields for part in ast.walk(field) if isinstance(part, ast.Name)}
                wrong += [f"{name}.{cls.name}: {one}" for one in sorted(used & for_types)]
    assert wrong == []


def test_class_bodies_assign_one_name_at_a_time_and_named_tuples_hold_no_lambda(names: list[str]) -> None:
    wrong = []
    for name in names:
        for cls in _classes(_tree(name)):
            wrong += [
                f"{name}:{node.lineno}" for node in cls.body if isinstance(node, ast.Assign) and len(node.targets) > 1
            ]
            if "NamedTuple" in map(ast.unparse, cls.bases):
                wrong += [f"{name}:{node.lineno}" for node in ast.walk(cls) if isinstance(node, ast.Lambda)]
    assert wrong == []


@pytest.fixture
def setup_script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs setup.py, and returns what it defines and gives to setuptools."""
    setuptools = pytest.importorskip("setuptools")
    if not (ROOT / "setup.py").exists():
        pytest.skip("there is no checkout")
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
    monkeypatch.setattr(sys, "argv", ["setup.py", "build_ext"])
    monkeypatch.chdir(ROOT)
    return lambda: SimpleNamespace(**runpy.run_path("setup.py"), given=given)


def test_without_being_asked_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, setup_script: Any) -> None:
    monkeypatch.delenv("KQUEUE_COMPILE", raising=False)
    assert setup_script().given["ext_modules"] == []


def test_a_build_without_mypy_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, setup_script: Any) -> None:
    monkeypatch.setenv("KQUEUE_COMPILE", "1")
    monkeypatch.setitem(sys.modules, "mypyc.build", None)
    with pytest.raises(SystemExit, match="KQUEUE_COMPILE=1 needs mypy"):
        setup_script()


def test_a_build_without_a_compiler_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, setup_script: Any) -> None:
    from setuptools.command.build_ext import build_ext
    from setuptools.dist import Distribution
    from setuptools.errors import CompileError

    def fail(self: build_ext) -> None:
        raise CompileError("command 'gcc' failed: No such file or directory")

    command = setup_script().CompileHotModules(Distribution())
    monkeypatch.setattr(build_ext, "run", fail)
    with pytest.raises(SystemExit, match=r"not compiled: command 'gcc' failed.*needs a C compiler and the headers"):
        command.run()
