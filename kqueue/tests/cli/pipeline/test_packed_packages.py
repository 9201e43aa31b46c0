"""The packages of an environment that executors need, against a folder of empty packages."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from kqueue.cli.pipeline.packed_packages import needed, normalized, others


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
