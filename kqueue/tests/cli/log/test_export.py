"""S3.3: the command that exports records."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.log.export import FORMATS, FORMS
from kqueue.log_tools import export as module
from kqueue.log_tools.rows import DECODERS
from kqueue.tests.golden import data_folder, expected
from kqueue.tests.log_tools.damage import NONE, flip, some_of

FOLDER = data_folder("4.3")


def run(*args: object) -> Result:
    return CliRunner().invoke(kqueue, ["log", "export", *map(str, args)])


def test_choices_are_those_of_the_library() -> None:
    assert module.FORMATS == FORMATS
    assert tuple(DECODERS) == FORMS


def test_a_partition_to_parquet(tmp_path: Path) -> None:
    result = run(
        FOLDER / "v2-none-0",
        "--to",
        tmp_path / "x.parquet",
        "--value-as",
        "utf8",
        "--start-offset",
        10,
        "--end-offset",
        20,
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Wrote 10 records of 1 partition to ")
    values = pq.read_table(tmp_path / "x.parquet")["value"].to_pylist()
    assert values == [one.value.decode() for one in expected("4.3")["v2-none"].records[10:20] if one.value is not None]


def test_several_partitions_of_a_topic_as_lines() -> None:
    result = run(*(FOLDER / f"v2-three-partitions-{number}" for number in range(3)), "--to", "-")
    assert {(line["partition"], line["offset"]) for line in map(json.loads, result.stdout.splitlines())} == {
        (one.partition, one.offset) for one in expected("4.3")["v2-three-partitions"].records
    }


def test_committed_records_alone() -> None:
    result = run(FOLDER, "--topic", "txn", "--read-committed", "--to", "-")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [
        one.offset for one in expected("4.3")["txn:committed"].records
    ]


def test_times() -> None:
    records = expected("4.3")["v2-none"].records
    result = run(
        FOLDER / "v2-none-0", "--to", "-", "--since", records[100].timestamp, "--until", records[101].timestamp + 1
    )
    assert len(result.stdout.splitlines()) == sum(
        records[100].timestamp <= one.timestamp <= records[101].timestamp for one in records
    )
    assert run(FOLDER, "--to", "-", "--since", "yesterday").exit_code == 2


def test_damage_stops_the_export_or_is_reported(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    result = run(folder, "--to", tmp_path / "x.jsonl")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "position 3180" in result.stderr
    assert not (tmp_path / "x.jsonl").exists()
    result = run(folder, "--to", tmp_path / "x.jsonl", "--skip-damaged")
    assert result.exit_code == 0
    assert result.stderr.startswith("Left out: ")
    assert "position 3180" in result.stderr


def test_wrong_usage_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    for status, args in (
        (1, (FOLDER, "--to", tmp_path / "x.jsonl")),
        (2, (FOLDER, "--to", tmp_path / "x.xyz")),
        (2, (tmp_path, "--to", tmp_path / "y.jsonl")),
        (2, (FOLDER, "--to", tmp_path / "y.jsonl", "--topic", "none")),
        (1, (FOLDER / "v2-none-0", "--to", tmp_path / "y.jsonl", "--value-as", "long")),
        (1, (FOLDER / "v2-none-0", "--to", tmp_path / "no/folder/y.jsonl")),
    ):
        result = run(*args)
        assert (result.exit_code, result.stderr.count("\n")) == (status, 1), result.stderr
        assert result.stderr.startswith("Error: ")
    assert run(FOLDER, "--to", tmp_path / "x.jsonl", "--overwrite").exit_code == 0


def test_without_pyarrow_lines_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run(FOLDER / "v2-none-0", "--to", tmp_path / "x.parquet")
    assert result.exit_code == 1
    assert "pip install '.[arrow]'" in result.stderr
    assert run(FOLDER / "v2-none-0", "--to", tmp_path / "x.jsonl").exit_code == 0
