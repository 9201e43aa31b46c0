"""Tests of `python -m release`; `package_tests` runs all of it."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from kqueue.base.version import __version__
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each
from release import __main__ as release
from release import checks, distributions

CHANGES = "# Changelog\n\n## 1.2.3, 2027-01-02\n\n### Added\n\n- A thing.\n\n## 1.2.2, 2026-12-30\n\n- Another.\n"
VERSION = '"""The version."""\n\n__version__ = "1.2.3"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that can be released as 1.2.3."""
    root = tmp_path / "checkout"
    (root / "kqueue" / "base").mkdir(parents=True)
    (root / "kqueue" / "base" / "version.py").write_text(VERSION)
    (root / "CHANGELOG.md").write_text(CHANGES)
    checks.git(root, "init", "-q", "-b", "main")
    for name, value in (("name", "tester"), ("email", "tester@localhost")):
        checks.git(root, "config", f"user.{name}", value)
    commit(root)
    return root


def commit(root: Path) -> None:
    checks.git(root, "add", "-A")
    checks.git(root, "commit", "-q", "-m", "Change something")


def test_a_checkout_that_is_ready_has_no_problems(checkout: Path) -> None:
    assert checks.problems(checkout) == []
    assert checks.version_of(checkout) == "1.2.3"
    assert checks.notes_of(checkout, "1.2.3") == "### Added\n\n- A thing."
    assert checks.notes_of(checkout, "1.2.2") == "- Another."
    assert checks.notes_of(checkout, "9.9.9") == ""


@for_each(
    "changes, problem",
    [
        (CHANGES.replace("2027-01-02", "not released yet"), "has no day of release"),
        (CHANGES.replace("## 1.2.3, 2027-01-02\n", "", 1), "begins with version 1.2.2"),
        (CHANGES.replace("### Added\n\n- A thing.\n", ""), "the section of 1.2.3 is empty"),
        ("# Changelog\n", "begins with version none"),
    ],
)
def test_a_version_without_notes_or_day_is_not_released(checkout: Path, changes: str, problem: str) -> None:
    (checkout / "CHANGELOG.md").write_text(changes)
    commit(checkout)
    (found,) = checks.problems(checkout)
    assert problem in found


@for_each("version", ["1.2.3.dev0", "1.2.3rc1", "1.2", ""])
def test_a_version_of_other_than_three_numbers_is_not_released(checkout: Path, version: str) -> None:
    (checkout / "kqueue" / "base" / "version.py").write_text(f'__version__ = "{version}"\n')
    commit(checkout)
    assert "expected three numbers" in checks.problems(checkout)[0]


def test_a_checkout_without_a_version_is_refused(checkout: Path) -> None:
    (checkout / "kqueue" / "base" / "version.py").write_text("version = 3\n")
    with pytest.raises(ValueError, match="expected a line like __version__"):
        checks.version_of(checkout)


def test_changes_that_are_not_committed_are_not_released(checkout: Path) -> None:
    (checkout / "new.py").write_text("")
    assert checks.problems(checkout) == ["the work tree has changes that are not committed: new.py"]


def test_a_version_is_released_once(checkout: Path) -> None:
    kept = checkout / release.DATA_FOLDERS
    kept.mkdir(parents=True)
    (kept / "1.2.3-data.tar.xz").write_bytes(b"data")
    release._commit_and_tag(checkout, "1.2.3")
    assert checks.git(checkout, "show", "--stat", "--format=%s", "v1.2.3^{commit}").startswith("Keep the data folder")
    assert checks.git(checkout, "tag", "-l", "-n9", "v1.2.3").split(maxsplit=1)[1].startswith("kqueue 1.2.3")
    assert "### Added" in checks.git(checkout, "cat-file", "-p", "v1.2.3"), "headings are no comments"
    (found,) = checks.problems(checkout)
    assert found.startswith("the tag v1.2.3 is there already")


def test_what_is_not_ready_is_refused_before_anything_is_built(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributions, "build", lambda *arguments: pytest.fail("it was built"))
    (checkout / "new.py").write_text("")
    assert release.main(["--dry-run"], checkout) == release.REFUSED
    assert "not released: the work tree has changes" in capsys.readouterr().err


def test_the_next_steps_name_the_files_and_are_not_taken() -> None:
    text = release._next_steps("1.2.3", ["kqueue-1.2.3.tar.gz"], is_dry=False)
    assert "1.2.3 is tagged, and not published" in text
    assert "  python -m twine upload dist/kqueue-1.2.3.tar.gz\n" in text
    assert "nothing was changed" in release._next_steps("1.2.3", [], is_dry=True)


def test_this_checkout_names_a_version_and_notes() -> None:
    assert checks.version_of(ROOT) == __version__
    assert checks.notes_of(ROOT, __version__)


def wheel(folder: Path, *names: str, kind: str = "py3-none-any") -> Path:
    path = folder / f"kqueue-1.2.3-{kind}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*distributions.NEEDED, "kqueue-1.2.3.dist-info/METADATA", *names):
            archive.writestr(name, b"")
    return path


@for_each(
    "name", ["kqueue/tests/test_app.py", "setup.py", "kqueue/__pycache__/app.pyc", "kqueue__mypyc.so", "README.md"]
)
def test_a_wheel_with_other_files_than_modules_has_a_problem(tmp_path: Path, name: str) -> None:
    (found,) = distributions.problems(wheel(tmp_path, name))
    assert found.endswith(f"not to be published: {name}")


def test_a_compiled_wheel_may_have_libraries(tmp_path: Path) -> None:
    assert distributions.problems(wheel(tmp_path)) == []
    path = wheel(tmp_path, "kqueue__mypyc.cpython-311.so", kind="cp311-cp311-linux_x86_64")
    assert distributions.problems(path) == []


def test_a_wheel_that_lacks_a_file_or_is_too_large_has_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(tmp_path)
    monkeypatch.setattr(distributions, "NEEDED", ("kqueue/other.py",))
    monkeypatch.setitem(distributions.BYTES_MAX, "pure wheel", 10)
    lacks, too_large = distributions.problems(path)
    assert lacks.endswith("lacks kqueue/other.py")
    assert "expected at most 10 of a pure wheel" in too_large


def test_a_source_distribution_has_what_a_build_needs_and_no_tests(tmp_path: Path) -> None:
    path = tmp_path / "kqueue-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in (*distributions.NEEDED, "setup.py", "PKG-INFO", "kqueue/tests/test_app.py"):
            tar.addfile(tarfile.TarInfo(f"kqueue-1.2.3/{name}"), io.BytesIO())
    (found,) = distributions.problems(path)
    assert found.endswith("kqueue/tests/test_app.py")


def test_a_failed_build_is_reported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> list[Path]:
        raise subprocess.CalledProcessError(1, "build", "output", "no compiler")

    monkeypatch.setattr(distributions, "build", fail)
    assert release.main(["--dry-run"], checkout) == release.REFUSED
    assert "no compiler" in capsys.readouterr().err
