"""The pipeline commands before Spark starts; tests with Spark are in `compat_tests/spark`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.cli.connect import bootstrap_option
from kqueue.cli.pipeline.spark_command import absolute, path_option, report_progress, source_options, whole_name
from kqueue.tests.tables import for_each

NO_PYSPARK = """
import sys
sys.modules["pyspark"] = sys.modules["pyspark.sql"] = None
from kqueue.cli import main
main()
"""


def test_source_options_follow_from_the_arguments() -> None:
    assert source_options(("a", "b"), None, "h:1") == {"kafka.bootstrap.servers": "h:1", "subscribe": "a,b"}
    assert source_options(("a",), "data", "h:1") == {"path": str(Path("data").absolute()), "subscribe": "a"}
    assert source_options((), None, "h:1", "o.*") == {"kafka.bootstrap.servers": "h:1", "subscribePattern": "^(?:o.*)$"}
    assert absolute("s3://bucket/data") == "s3://bucket/data"


def test_topics_and_a_pattern_exclude_each_other() -> None:
    with pytest.raises(click.UsageError, match="--topic and --pattern contradict each other"):
        source_options(("a",), None, "h:1", "o.*")


KEPT = ["archive", "kept", "-t", "orders"]
TABLES = ["ingest", "tables", "-t", "orders", "--events", "flights"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "--path", "data", "-b", "h:1"], "leave out --bootstrap-server, or --path"),
        ([*KEPT, "--path", "data", "--bootstrap-server", "h:1"], "leave out --bootstrap-server, or --path"),
        ([*TABLES, "--path", "data", "--command-config", "pyproject.toml"], "leave out --command-config, or --path"),
        ([*TABLES, "--catalog", "c.db"], "--catalog is for --format iceberg, and this is parquet"),
        ([*TABLES, "--s3-endpoint", "http://h"], "--s3-endpoint is for a FOLDER such as s3://BUCKET/PREFIX"),
        ([*TABLES, "--checkpoint", "s3://b/c"], "expected a mounted folder, found 's3://b/c'"),
        ([*TABLES, "--value-subject", "s"], "valueSchemaSubject needs valueFormat"),
        ([*TABLES, "--lateness", "soon"], "--lateness: expected a time such as"),
        (["ingest", "tables", "-t", "orders", "--events", "none.toml"], "there is no file 'none.toml'"),
        (["ingest", "s3://bucket/t", "-t", "orders", "--events", "flights"], "s3://bucket/t needs --checkpoint"),
        (["archive", "s3:/lake/x", "-t", "orders"], "'s3:/lake/x' is no URL of an object store: write s3://lake/x"),
        (["replay", "S3A://lake"], "write s3://lake"),
        (["ingest", "s3:lake", "-t", "orders", "--events", "flights"], "write s3://lake"),
        (["replay", "kept", "--run", "2"], "--run is for --delivery exactly-once and transactional"),
        ([*KEPT, "--since", "2024-05-02", "--until", "2024-05-01"], "--since and --until contradict each other"),
        (["sweep", "--dry-run"], "--dry-run is for --query, --checkpoint or --unused-for"),
        (["sweep", "--query", "q", "--json"], "-o is for the list, without --query"),
        ([*KEPT, "--master", "local[2]", "--executor-timeout", "9"], "--executor-timeout is for a cluster"),
        (["pack", "--all", "--with", "click"], "--all and --with contradict each other"),
        (["pack", "--with", "no-such-package"], "there is no package 'no-such-package'"),
    ],
)
def test_options_that_would_be_ignored_or_are_wrong_are_a_usage_error(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("venv_pack", "obstore") if arguments[0] == "pack" or "s3" in str(arguments) else ():
        pytest.importorskip(module)
    monkeypatch.setattr("kqueue.spark.session.import_pyspark", lambda: None)
    monkeypatch.chdir(Path(__file__).parents[4])
    result = CliRunner().invoke(kqueue, ["pipeline", *arguments])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert said in " ".join(result.stderr.split())


def test_a_folder_does_for_a_broker_that_only_the_environment_names() -> None:
    @click.command()
    @path_option
    @bootstrap_option
    def command(path: str, bootstrap: str) -> None:
        click.echo(",".join(source_options(("a",), path, bootstrap)))

    result = CliRunner().invoke(command, ["--path", "data"], env={"KQUEUE_BOOTSTRAP": "h:1"})
    assert result.output == "path,subscribe\n"


def test_progress_without_a_session_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    report_progress("reading", 5, 10)
    assert capsys.readouterr() == ("", "")


@for_each("job", ["ingest", "archive", "replay", "audit"])
def test_every_job_has_help(job: str) -> None:
    result = CliRunner().invoke(kqueue, ["pipeline", job, "--help"])
    assert result.exit_code == 0
    assert f"kqueue pipeline {job}" in result.output


@pytest.mark.long
def test_without_pyspark_help_works_and_a_job_names_the_extra() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", NO_PYSPARK, *args], capture_output=True, text=True, timeout=60, check=False
        )

    assert "audit" in run("pipeline", "--help").stdout
    result = run("pipeline", "audit", "-t", "orders")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: jobs on Spark need pyspark")
    assert "pip install '.[spark]'" in result.stderr


@for_each(
    "pattern, matching, others",
    [("orders", ["orders"], ["my-orders", "orders-2"]), ("a|b.", ["a", "bc"], ["ab", "abc"]), ("(?i)A", ["a"], ["ab"])],
)
def test_a_pattern_is_one_of_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = re.compile(whole_name(pattern))
    assert [name for name in (*matching, *others) if compiled.search(name)] == matching


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"--pattern: '\(' is no regular expression"):
        whole_name("(")
