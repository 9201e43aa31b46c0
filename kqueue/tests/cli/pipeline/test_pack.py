from __future__ import annotations

import importlib.util
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.pipeline import pack as module

LOAD_ALL = """
import ctypes, pathlib, sys
sys.path.insert(0, sys.argv[1])
import pyarrow, pyarrow.compute, pyarrow.dataset, pyarrow.parquet
assert pathlib.Path(pyarrow.__file__).is_relative_to(sys.argv[1]), pyarrow.__file__
libraries = sorted(pathlib.Path(sys.argv[1]).rglob("*.so*"))
for library in libraries:
    ctypes.CDLL(str(library))
print(len(libraries))
"""
"""Imports the pyarrow of a folder, and loads each of its shared libraries."""


def run(*words: str) -> Result:
    return CliRunner().invoke(kqueue, ["pipeline", "pack", *words])


def test_without_venv_pack_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install '.[pack]'" in run().output


def test_errors_of_venv_pack_become_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "install it without -e" in module._remedy("Cannot pack an environment\nwith editable packages\n- kqueue")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert "is no virtual environment: make one" in module._remedy("Current environment is not a virtual environment")
    monkeypatch.setattr(sys, "prefix", "/venv")
    assert module._remedy("something\nelse") == "something else"


def test_a_file_that_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("venv_pack")
    (tmp_path / "environment.tar.gz").write_bytes(b"mine")
    monkeypatch.chdir(tmp_path)
    assert "overwrite it with --force" in run().output
    assert (tmp_path / "environment.tar.gz").read_bytes() == b"mine"
    for name in ("environment.rar", "environment.tar", "environment.zip"):
        assert "has to end in .tar.gz" in run(name).output


@pytest.mark.long
def test_others_may_read_an_archive_as_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("venv_pack")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path)
    assert run().output.startswith("Packed ")
    (tmp_path / "other").touch()
    assert (tmp_path / "environment.tar.gz").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.long
def test_libraries_of_pyarrow_do_not_need_what_is_left_out(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    installed = Path(pyarrow.__file__).parent
    files = [file for file in installed.rglob("*") if file.is_file()]
    packed = [file for file in files if not any(fnmatch(str(file), pattern) for pattern in module.LEFT_OUT)]
    assert 0 < len(packed) < len(files)
    for file in packed:
        link = tmp_path / file.relative_to(installed.parent)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOAD_ALL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
