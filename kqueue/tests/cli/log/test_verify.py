"""S7.2: the command that verifies folders: exit status, table, JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.tests.golden import data_folder
from kqueue.tests.log_tools.damage import NONE, flip, some_of


def run(*args: object) -> Result:
    return CliRunner().invoke(kqueue, ["log", "verify", *map(str, args)])


def test_sound_folders_end_with_0() -> None:
    for version in ("2.8", "4.3"):
        result = run(data_folder(version))
        assert result.exit_code == 0
        assert "\nAll is sound" in "\n" + result.stdout


def test_damage_ends_with_1_and_is_named(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    result = run(folder, "--deep")
    assert result.exit_code == 1
    assert f"error: {NONE}.log at position 3180: expected checksum" in result.stdout
    assert "1 place damaged" in result.stdout
    assert "Read 1 partition, 1 segment, 7 batches and 260 records" in result.stdout
    assert run(folder, "-q").stdout.count("\n") == 1


def test_json_is_one_object(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    result = run(folder / "v2-none-0", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["sound"], report["batches"]) == (False, 7)
    (finding,) = report["findings"]
    assert (finding["file"], finding["position"], finding["severity"]) == (f"{NONE}.log", 3180, "error")


def test_a_folder_without_logs_ends_with_2(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        result = run(path)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
    assert run(tmp_path, "--no-such-option").exit_code == 2


def test_compacted_logs_without_their_data_folder(tmp_path: Path) -> None:
    some_of("2.8", tmp_path, "compacted-0")
    (tmp_path / "kafka-2.8/compacted-0").rename(tmp_path / "compacted-0")
    assert run(tmp_path / "compacted-0").exit_code == 1
    assert run(tmp_path / "compacted-0", "--allow-gaps").exit_code == 0


def test_compare_prints_each_partition_and_the_first_difference(tmp_path: Path) -> None:
    ours = some_of("4.3", tmp_path, "v2-none-0", "v2-gzip-0")
    theirs = tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    result = run("--compare", ours, theirs)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "equal: v2-gzip-0 to 300; high watermark 300, ends 300, 300",
        "equal: v2-none-0 to 300; high watermark 300, ends 300, 300",
        "Compared 2 partitions in 2 folders: equal below the high watermarks.",
    ]
    assert run("--compare", "-q", ours, theirs).stdout == ""
    flip(theirs / f"{NONE}.log", 3300)
    result = run("--compare", "-q", ours, theirs)
    assert result.exit_code == 1
    assert result.stdout.startswith("different: v2-none-0: damage")
    report = json.loads(run("--compare", "--json", ours, theirs).stdout)
    assert (report["equal"], [one["topic"] for one in report["partitions"] if one["difference"]]) == (
        False,
        ["v2-none"],
    )


def test_compare_refuses_what_can_not_be_compared(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    for arguments in (["--compare", folder], ["--compare", folder, folder / "v2-none-0"], [folder, folder]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Error: name " in result.stderr
    assert run("--compare", folder, folder, "--deep").exit_code == 2
    assert run("--compare", folder, tmp_path / "none").exit_code == 2
