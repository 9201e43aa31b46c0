from __future__ import annotations

import sys

import pytest

from kqueue.spark import pythons


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,512]", False), ("k8s://h", False)],
)
def test_what_is_local(master: str, local: bool) -> None:
    assert pythons.is_local(master) == local


def test_java_starts_with_this_python_and_the_environment_stays() -> None:
    jupyter = {pythons.DRIVER: "jupyter"}
    with pythons.driver_python("spark://h:7077", jupyter):
        assert jupyter == {pythons.DRIVER: sys.executable}
    assert jupyter == {pythons.DRIVER: "jupyter"}
    bare: dict[str, str] = {}
    with pythons.driver_python(None, bare):
        assert bare == {pythons.DRIVER: sys.executable}
    assert bare == {}
    packed = {pythons.WORKERS: "./environment/bin/python"}
    with pythons.driver_python("spark://h:7077", packed):
        assert packed[pythons.DRIVER] == sys.executable
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
    assert pythons.executor_python("local[*]", archives) == sys.executable
    assert pythons.executor_python("spark://h:7077", {}) == sys.executable
    assert pythons.executor_python("spark://h:7077", archives) == "./env/bin/python"
    assert pythons.executor_python("yarn", archives | {pythons.WORKERS_SETTING: "/opt/python"}) == "/opt/python"


def test_archives_have_the_name_of_their_folder() -> None:
    assert pythons.named_archive("environment.tar.gz") == "environment.tar.gz#environment"
    assert pythons.named_archive("a.zip#b") == "a.zip#b"
