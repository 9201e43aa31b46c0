from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.tests.tables import for_each


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["backup", *map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", partitions=2)
        broker.topics["orders"].produce("two coffees")
    return tmp_path / "data"


def test_a_backup_is_made_checked_and_restored(data: Path, tmp_path: Path) -> None:
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    made = run("create", data, "--to", backup)
    assert made.exit_code == 0, made.output
    assert made.output.startswith("1 data folder with 2 partitions, ")
    checked = run("verify", backup)
    assert checked.exit_code == 0
    assert f"{backup} is whole" in checked.output
    done = run("restore", backup, "--to", restored)
    assert done.exit_code == 0
    assert f"to {restored}" in done.output
    with kqueue.Broker(restored) as broker:
        broker.assert_produced("orders", ["two coffees"])


def test_json_has_what_the_text_says(data: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    made = json.loads(run("create", data, "--to", backup, "-o", "json").output)
    assert made["backup"] == str(backup)
    assert made["folders"][0]["partitions"] == 2
    assert made["is_of_one_moment"] is True
    checked = json.loads(run("verify", backup, "--json").output)
    assert (checked["is_whole"], checked["damage"]) == (True, [])
    restored = json.loads(run("restore", backup, "--to", tmp_path / "restored", "-o", "json").output)
    assert restored["restored"] == str(tmp_path / "restored")


def test_damage_is_named_and_is_exit_status_1(data: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    run("create", data, "--to", backup)
    (backup / "folders/data/kqueue.db").unlink()
    checked = run("verify", backup)
    assert checked.exit_code == 1
    assert "folders/data/kqueue.db: missing" in checked.output
    assert "use another backup" in checked.output
    refused = run("restore", backup, "--to", tmp_path / "restored")
    assert refused.exit_code == 2
    assert "Use another backup." in refused.output


def test_errors_name_the_remedy_and_are_exit_status_2(data: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("create", data, "--to", data), "is not empty: name a new or empty folder for the backup"),
        (("create", tmp_path, "--to", tmp_path / "x"), "is no data folder: it has no meta.properties"),
        (("verify", tmp_path), "is written last; make another one"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in result.output.replace("\n", " ")


@for_each("name", [(), ("create",), ("verify",), ("restore",)])
def test_the_help_has_an_example(name: tuple[str, ...]) -> None:
    assert "  kqueue backup " in run(*name, "--help").output
