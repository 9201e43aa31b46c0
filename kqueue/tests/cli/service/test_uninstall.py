from __future__ import annotations

from pathlib import Path

from kqueue.cli.service.layout import DATA, RECORD
from kqueue.tests.cli.service.support import SETTINGS, UNIT_PATH, files_below, install, run


def test_data_and_settings_stay(tmp_path: Path) -> None:
    install(tmp_path)
    data = tmp_path / DATA / "orders-0"
    data.mkdir(parents=True)
    done = run("uninstall", "--root", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert files_below(tmp_path) == {SETTINGS, RECORD}
    assert f"kept     {tmp_path / SETTINGS}\nkept     {tmp_path / DATA}\n" in done.output
    assert data.is_dir()


def test_a_purge_removes_all_but_the_data(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / UNIT_PATH).write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / DATA).mkdir(parents=True)
    done = run("uninstall", "--purge", "--root", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert files_below(tmp_path) == set()
    assert (tmp_path / DATA).is_dir()


def test_a_dry_run_removes_nothing(tmp_path: Path) -> None:
    install(tmp_path)
    before = files_below(tmp_path)
    assert "remove" in run("uninstall", "--dry-run", "--root", str(tmp_path)).output
    assert files_below(tmp_path) == before


def test_without_an_installation_there_is_nothing_to_remove(tmp_path: Path) -> None:
    assert run("uninstall", "--root", str(tmp_path)).output == "nothing is installed\n"
