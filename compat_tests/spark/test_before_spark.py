"""Mistakes that a job reports before Spark starts, in one sentence and with one exit status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.spark import session as session_module
from kqueue.spark.stores import s3

FAILED, USAGE = 1, 2
EVENTS = ["--events", "flights"]
JOBS = {
    "audit": ["audit", "-t", "TOPIC"],
    "archive": ["archive", "out", "-t", "TOPIC"],
    "ingest": ["ingest", "out", "-t", "TOPIC", *EVENTS],
}


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fail where a job starts Spark, and work in an empty folder."""

    def start(*_: object, **__: object) -> NoReturn:
        raise AssertionError("Spark was to be started")

    monkeypatch.setattr(session_module, "job_session", start)
    monkeypatch.chdir(tmp_path)
    for name in (*s3.KEYS, *s3.ROLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kqueue.Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("orders", 2)
        yield broker.bootstrap


def failed(status: int, *arguments: str) -> str:
    """Run a job that fails, and return what it says; it leaves nothing behind."""
    before = sorted(Path().iterdir())
    result: Result = CliRunner().invoke(command, ["pipeline", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert sorted(Path().iterdir()) == before
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    said = [line for line in result.stderr.splitlines() if not line.startswith("waiting for the broker at ")]
    assert status == USAGE or len(said) == 1
    return last


@pytest.mark.parametrize("job", JOBS)
def test_missing_topic_is_reported_with_a_similar_name(bootstrap: str, job: str) -> None:
    arguments = [argument.replace("TOPIC", "order") for argument in JOBS[job]]
    said = failed(FAILED, *arguments, "-b", bootstrap)
    assert said == f"Error: there is no topic 'order' on {bootstrap}; did you mean 'orders'?"


@pytest.mark.parametrize("job", [*JOBS, "replay", "sweep"])
def test_unreachable_broker_is_reported_by_address(job: str) -> None:
    assert "no broker answers at 127.0.0.1:1 (Connection refused)" in failed(
        FAILED, *JOBS.get(job, [job, "out"] if job == "replay" else [job]), "-b", "127.0.0.1:1", "--timeout", "0"
    )


@pytest.mark.parametrize("job", JOBS)
def test_folder_without_sealed_segments_is_refused(job: str, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("TOPIC", 2)
        for number in range(3):
            broker.topics["TOPIC"].produce(str(number))
        said = failed(FAILED, *JOBS[job], "--path", "data")
    assert said.startswith("Error: nothing can be read: ")
    assert "3 offsets in the last segments" in said


def test_replay_of_a_folder_without_archive_is_refused(bootstrap: str, tmp_path: Path) -> None:
    assert failed(FAILED, "replay", "kept", "-b", bootstrap).endswith(
        "kept is no archive: expected a folder that `kqueue pipeline archive` has written"
    )
    assert "expected up to 40 letters" in failed(
        USAGE, "replay", "kept", "-b", bootstrap, "--delivery", "exactly-once", "--run", "a b"
    )


def test_object_store_without_keys_is_refused(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "METADATA", ("127.0.0.1", 1))
    for arguments in (
        ["archive", "s3://bucket/kept", "-t", "orders"],
        ["replay", "s3://bucket/kept"],
        ["ingest", "s3://bucket/t", "-t", "orders", *EVENTS, "--checkpoint", "progress"],
    ):
        said = failed(FAILED, *arguments, "-b", bootstrap)
        assert "can't be reached: there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    said = failed(FAILED, "replay", "s3://bucket/kept", "-b", bootstrap)
    assert said.endswith("AWS_SECRET_ACCESS_KEY is not set, and goes with AWS_ACCESS_KEY_ID")


def test_unwritable_report_folder_is_refused(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = failed(FAILED, "audit", "-b", bootstrap, "--report", "file/report")
    assert said.endswith("file is no folder where you may write")


def test_tables_of_another_version_are_refused(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    (tmp_path / "out" / "checkpoints" / "tables.json").write_text('{"version": 0}')
    said = failed(FAILED, *JOBS["ingest"], "-b", bootstrap)
    assert said.endswith("was made by another version of kqueue: use that, or another folder")


def test_unreachable_registry_is_reported_by_address(bootstrap: str) -> None:
    values = ["--value-format", "avro", "--value-registry", "http://127.0.0.1:1"]
    arguments = [argument.replace("TOPIC", "orders") for argument in JOBS["ingest"]]
    assert "127.0.0.1:1" in failed(FAILED, *arguments, *values, "-b", bootstrap)
