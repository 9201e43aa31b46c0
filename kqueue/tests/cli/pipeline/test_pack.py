from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.pipeline import pack as module
from kqueue.cli.pipeline.packed_packages import needed, normalized, others


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


def test_others_may_read_an_archive_as_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("venv_pack")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment"], check=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path)
    assert run().output.startswith("Packed ")
    (tmp_path / "other").touch()
    assert (tmp_path / "environment.tar.gz").stat().st_mode == (tmp_path / "other").stat().st_mode


def package(folder: Path, name: str, *requires: str, module: str = "", extras: str = "") -> None:
    """Install an empty package in a folder."""
    module = module or name.replace("-", "_")
    (folder / module).mkdir(exist_ok=True)
    (folder / module / f"{name}.py").touch()
    about = folder / f"{name.replace('-', '_')}-1.dist-info"
    about.mkdir()
    lines = [f"Name: {name}", "Version: 1", *(f"Provides-Extra: {extra}" for extra in extras.split())]
    (about / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {one}" for one in requires), ""]))
    (about / "RECORD").write_text(f"{module}/{name}.py,,\n{about.name}/METADATA,,\n../../../bin/{name},,\n")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, Distribution]:
    pytest.importorskip("packaging")
    spark = ("pyspark; extra == 'spark'", "matplotlib; extra == 'spark'")
    package(tmp_path, "kqueue", "click>=8", *spark, "kazoo; extra == 'zookeeper'", extras="spark zookeeper")
    package(tmp_path, "click", "old; python_version < '3'")
    package(tmp_path, "pyspark", "py4j")
    package(tmp_path, "matplotlib", "pillow")
    package(tmp_path, "my-code", "my_base")
    package(tmp_path, "my.base", module="shared")
    package(tmp_path, "other-base", module="shared")
    for name in ("py4j", "pillow", "kazoo", "old"):
        package(tmp_path, name)
    return {normalized(one.metadata["Name"]): one for one in distributions(path=[str(tmp_path)])}


def test_executors_need_the_packages_of_jobs_and_theirs(installed: dict[str, Distribution]) -> None:
    kept = needed(installed, ["kqueue[spark,s3]"])
    assert kept == {"kqueue", "click", "pyspark", "py4j"}
    assert {"matplotlib", "pillow", "pillow-1.dist-info", "shared"} <= others(installed, kept)
    assert not {"kqueue", "py4j", "click-1.dist-info", ".."} & others(installed, kept)


def test_packages_of_ones_own_are_kept_with_theirs(installed: dict[str, Distribution]) -> None:
    kept = needed(installed, ["kqueue[spark]", "My-Code"])
    assert {"my-code", "my-base"} <= kept
    left_out = others(installed, kept)
    assert "shared" not in left_out  # another package that is left out has files there too
    assert "other_base-1.dist-info" in left_out
