from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.plugins.template import KINDS, distribution_name
from kqueue.tests.cli.plugins.installed import add_project
from kqueue.tests.thorough import corners

Run = Callable[..., Result]
SOON_TESTED = {"partitioner", "command"}


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`kqueue plugins new` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        return CliRunner().invoke(kqueue, ["plugins", "new", *args])

    return run


@pytest.mark.long
@pytest.mark.parametrize("kinds", corners([SOON_TESTED, set(KINDS) - SOON_TESTED]), ids=["some", "the others"])
def test_every_kind_passes_its_test_as_it_stands(new: Run, tmp_path: Path, kinds: set[str]) -> None:
    folders = []
    for name in sorted(kinds):
        kind = KINDS[name]
        assert new(name, "my-name").exit_code == 0
        folders.append(tmp_path / distribution_name(kind, "my-name"))
        add_project(folders[-1])
    path = os.pathsep.join(map(str, folders))
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rA",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            *map(str, folders),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((path, str(Path(__file__).parents[4])))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for folder in folders:
        assert f"PASSED {folder.name}/tests/test_" in ran.stdout


def test_new_plugin_prints_the_next_steps(new: Run, tmp_path: Path) -> None:
    result = new("partitioner", "by-country")
    assert result.exit_code == 0
    assert result.output.startswith(
        "Wrote kqueue-partitioner-by-country, the partitioner 'by-country'. Next:\n\n  cd kqueue-part"
    )
    assert "\n  pip install -e '.[test]'" in result.output
    assert "kqueue_partitioner_by_country.py" in result.output
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        f"kqueue-partitioner-by-country/{name}"
        for name in (
            "pyproject.toml",
            "README.md",
            "kqueue_partitioner_by_country.py",
            "tests/test_kqueue_partitioner_by_country.py",
        )
    }


def test_another_folder_and_an_author(new: Run, tmp_path: Path) -> None:
    (tmp_path / "a place").mkdir()
    result = new("codec", "fast", "--folder", "a place", "--author", "Ada <ada@example.org>")
    assert "cd 'a place'" in result.output
    assert (
        'authors = [{ name = "Ada", email = "ada@example.org" }]'
        in (tmp_path / "a place" / "pyproject.toml").read_text()
    )


def test_a_folder_that_holds_something_is_left_alone(new: Run, tmp_path: Path) -> None:
    folder = tmp_path / "kqueue-codec-fast"
    folder.mkdir()
    (folder / "mine").write_text("x")
    result = new("codec", "fast")
    assert result.exit_code == 1
    assert (
        result.output
        == "Error: kqueue-codec-fast holds something already; name a folder that is empty, or not there, with "
        "--folder\n"
    )
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_folder_that_can_not_be_written(new: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = new("codec", "fast", "--folder", "file/below")
    assert result.exit_code == 1
    assert result.output.startswith("Error: file/below can't be written: ")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ("partitoner", "x"),
            "no kind of plugin is called 'partitoner'; did you mean 'partitioner'? (there are: codec, partitioner, ",
        ),
        (("codec", "My_Codec"), "'My_Codec' can't be a plugin's name: it begins with a small letter"),
        (("codec", "gzip"), "kqueue has a codec of its own that is called 'gzip'; choose another name"),
        (("partitioner", "sticky"), "kqueue has a partitioner of its own that is called 'sticky'"),
        (("cleanup-policy", "delete"), "kqueue has a cleanup-policy of its own that is called 'delete'"),
        (("command", "topics"), "kqueue has a command of its own that is called 'topics'"),
        (("codec", "fast", "--author", "<>"), "'<>' is no author: write Ada Lovelace"),
    ],
)
def test_invalid_arguments_are_refused_with_what_is_expected(
    new: Run, tmp_path: Path, args: tuple[str, ...], words: str
) -> None:
    result = new(*args)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []
