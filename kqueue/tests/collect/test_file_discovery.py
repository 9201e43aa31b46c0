from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.collect.file_discovery import find_files, is_rotated_name, siblings
from kqueue.tests.tables import for_each


def names(patterns: list[str], folder: Path, ignored: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    return [Path(file.path).name for file in find_files([str(folder / pattern) for pattern in patterns], ignored)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for second, name in enumerate(["b.log", "a.log", "a.log.1.gz", "[x].log", "deep/c.log"]):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (second, second))
    return tmp_path


def test_patterns_and_names(folder: Path) -> None:
    assert names(["*.log"], folder) == ["b.log", "a.log", "[x].log"]  # the oldest first
    assert names(["**/*.log"], folder) == ["b.log", "a.log", "[x].log", "c.log"]
    assert names(["[x].log"], folder) == ["[x].log"]
    assert names(["nothing", "deep"], folder) == []


def test_compressed_files_are_left_out_unless_they_are_named(folder: Path) -> None:
    assert names(["a.log*"], folder) == ["a.log"]
    assert names(["a.log.1.gz"], folder) == ["a.log.1.gz"]


def test_a_file_is_found_once(folder: Path) -> None:
    os.link(folder / "a.log", folder / "hard.log")
    (folder / "soft.log").symlink_to(folder / "a.log")
    assert names(["a.log", "*.log"], folder).count("a.log") == 1
    assert "hard.log" not in names(["a.log", "*.log"], folder)


def test_pipes_and_own_files_are_skipped(folder: Path) -> None:
    os.mkfifo(folder / "pipe.log")
    assert names(["*.log"], folder, {str(folder / "a.log")}) == ["b.log", "[x].log"]


def test_siblings(folder: Path) -> None:
    assert [Path(file.path).name for file in siblings(str(folder / "a.log"))] == ["[x].log", "a.log.1.gz", "b.log"]
    assert siblings(str(folder / "no" / "x")) == []


@for_each("name", ["app.log.1", "app.log-20260131", "app.log.2026-01-31_12:00", "app-20260131.log", "app.1.log"])
def test_names_that_a_rotation_gives(name: str) -> None:
    assert is_rotated_name(name, "app.log")


@for_each("name", ["app.log", "app.log.err", "app.log.1.gz", "application.log", "app-web.log", "app2.log"])
def test_names_that_it_does_not_give(name: str) -> None:
    assert not is_rotated_name(name, "app.log")
