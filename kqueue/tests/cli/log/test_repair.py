"""S5.3: the command that repairs folders."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.log.formats.checkpoints import LOCK
from kqueue.storage import LocalStorage
from kqueue.tests.log_tools.damage import NONE, flip, replace, some_of


def run(*args: object) -> Result:
    return CliRunner().invoke(kqueue, ["log", "repair", *map(str, args)])


def damaged(tmp_path: Path) -> Path:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    return folder


def test_repair_reports_losses_and_rebuilt_files(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    result = run(folder, "--copy-to", tmp_path / "copy")
    assert result.exit_code == 0, result.output
    assert f"to {tmp_path / 'copy'}.\n" in result.stdout
    assert f"Lost: {NONE}.log at position 3180: offsets 40 to 79, 3206 bytes" in result.stdout
    assert f"{NONE}.index: rebuilt.\n" in result.stdout
    assert result.stdout.endswith("Nothing is damaged now.\n")
    assert "Nothing is damaged" in run(folder, "--copy-to", tmp_path / "again").stdout


def test_dry_run(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    result = run(folder, "--dry-run")
    assert result.exit_code == 1
    assert "Would be lost: " in result.stdout
    assert (folder / f"{NONE}.log").stat().st_size == 24560


def test_repair_requires_a_copy(tmp_path: Path) -> None:
    result = run(damaged(tmp_path))
    assert result.exit_code == 2
    assert "--copy-to DIR" in result.stderr


def test_refusals_are_one_sentence(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    lock = LocalStorage(folder).lock(LOCK)
    result = run(folder, "--copy-to", tmp_path / "copy")
    lock.release()
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.endswith("Stop the broker first.\n")
    result = run(folder, "--copy-to", folder / "copy")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert run(tmp_path / "none", "--dry-run").exit_code == 2


def test_irreparable_damage_is_reported(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    replace(folder / "meta.properties", "cluster.id=", "other=")
    result = run(folder, "--copy-to", tmp_path / "copy")
    assert result.exit_code == 1
    assert "Still damaged:\nerror: meta.properties" in result.stdout


def test_json(tmp_path: Path) -> None:
    result = run(damaged(tmp_path), "--copy-to", tmp_path / "copy", "--json")
    report = json.loads(result.stdout)
    assert (report["sound"], report["before"]["sound"], report["after"]["sound"]) == (True, False, True)
    assert [(lost["first_offset"], lost["end_offset"], lost["size"]) for lost in report["lost"]] == [(40, 80, 3206)]
