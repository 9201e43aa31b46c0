from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.spark import pythons
from kqueue.spark.errors import PipelineFailed

SHOW = "import os, sys; print(sys.executable, os.environ.get('PYTHONPATH'))"
ARCHIVES_OF_SPARK = "/s/lib/pyspark.zip:/s/lib/py4j-src.zip:/s/jars/spark-core_2.13-4.3.0.jar"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pythons.this_python.cache_clear()
    yield tmp_path / "cache"
    pythons.this_python.cache_clear()


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,512]", False), ("k8s://h", False)],
)
def test_master_is_local_if_it_names_threads(master: str, local: bool) -> None:
    assert pythons.is_local(master) == local


def test_java_starts_with_this_python_and_the_environment_stays() -> None:
    jupyter = {pythons.DRIVER: "jupyter"}
    with pythons.driver_python("spark://h:7077", jupyter):
        assert jupyter == {pythons.DRIVER: pythons.this_python()}
    assert jupyter == {pythons.DRIVER: "jupyter"}
    bare: dict[str, str] = {}
    with pythons.driver_python(None, bare):
        assert bare == {pythons.DRIVER: pythons.this_python()}
    assert bare == {}
    packed = {pythons.WORKERS: "./environment/bin/python"}
    with pythons.driver_python("spark://h:7077", packed):
        assert packed[pythons.DRIVER] == pythons.this_python()
    with pythons.driver_python("local[2]", packed):
        assert packed[pythons.DRIVER] == "./environment/bin/python"


def test_a_spark_starts_with_a_python_for_executors_that_is_not_kept() -> None:
    environ: dict[str, str] = {}
    with pythons.workers_python("./environment/bin/python", environ):
        assert environ == {pythons.WORKERS: "./environment/bin/python"}
    assert environ == {}
    given = {pythons.WORKERS: "/opt/python"}
    with pythons.workers_python("./environment/bin/python", given):
        assert given == {pythons.WORKERS: "/opt/python"}
    assert given == {pythons.WORKERS: "/opt/python"}


def test_executors_run_what_the_settings_say() -> None:
    archives = {pythons.ARCHIVES: "data.zip, env.tar.gz#env,more.tar#more"}
    assert pythons.executor_python("local[*]", archives) == pythons.this_python()
    assert pythons.executor_python("spark://h:7077", {}) == sys.executable
    assert pythons.executor_python("spark://h:7077", archives) == "./env/bin/python"
    assert pythons.executor_python("yarn", archives | {pythons.WORKERS_SETTING: "/opt/python"}) == "/opt/python"


def test_archives_have_the_name_of_their_folder() -> None:
    assert pythons.named_archive("environment.tar.gz") == "environment.tar.gz#environment"
    assert pythons.named_archive("a.zip#b") == "a.zip#b"


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
@pytest.mark.parametrize(
    ("path", "rest"),
    [
        (ARCHIVES_OF_SPARK, ""),
        (f"{ARCHIVES_OF_SPARK}:/mine:/my.jar", "/mine:/my.jar"),
        ("/mine:/my.jar", "/mine:/my.jar"),
    ],
)
def test_spark_s_archives_are_taken_off_the_path(
    cache: Path, monkeypatch: pytest.MonkeyPatch, path: str, rest: str
) -> None:
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(Path(pytest.__file__).parents[1])])
    program = pythons.this_python("pytest")
    assert Path(program).is_relative_to(cache)
    run = subprocess.run(
        [program, "-S", "-c", SHOW], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert run.stdout.rstrip("\n") == f"{sys.executable} {rest}"


def test_executors_get_the_python_itself_where_no_script_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pythons.this_python("no_such_package") == sys.executable
    assert pythons.this_python("kqueue.spark") == sys.executable, "it is not in the site-packages"
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(Path(pytest.__file__).parents[1])])
    monkeypatch.setattr(os, "access", lambda file, mode: False)
    assert pythons.this_python("pytest") == sys.executable, "its folder is mounted without programs"
    pythons.this_python.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(Path(pytest.__file__).parents[1])])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("no folder")
    assert pythons.this_python("pytest") == sys.executable


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    there = tmp_path / "environment.tar.gz"
    there.touch()
    named = (f"{there}#environment", f"file://{there}#e", "file:/gone.tar.gz", "s3://bucket/gone.tar.gz", "")
    pythons.check_archives({"spark.archives": ", ".join(named)})
    pythons.check_archives({})
    with pytest.raises(
        PipelineFailed, match=r"there is no file gone\.tar\.gz \(--archives.*pipeline pack gone\.tar\.gz"
    ):
        pythons.check_archives({"spark.archives": f"{there}#environment,gone.tar.gz#more"})
