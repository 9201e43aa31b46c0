"""The demonstration of tiered storage over PostgreSQL and an S3 server: a disk is lost, then all
brokers and their metadata.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from compat_tests.postgres import server as postgres_server
from compat_tests.tiered.servers import ACCESS_KEY, SECRET_KEY, Server
from kqueue.cli.app import kqueue


@pytest.mark.timeout(300)
def test_records_outlive_a_disk_and_then_all_brokers(
    tmp_path: Path, versity: Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = postgres_server.missing()
    if reason:
        pytest.skip(f"skipped, because {reason}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    tier = versity.url(prefix, access_key_id="", secret_access_key="")
    with postgres_server.Server() as postgres:
        stores = [f"{postgres.address}?schema={schema}" for schema in ("first", "second")]
        options = ["--size", "60", "--local", "3", "--tier", tier, "--store", *stores]
        result = CliRunner().invoke(kqueue, ["demo", "tiered", "--folder", str(tmp_path / "demo"), *options])
        assert result.exit_code == 0, result.output
        assert "All 7,500 readings came back" in result.output
        with psycopg.connect(postgres.address) as connection:
            names = {name for (name,) in connection.execute("select nspname from pg_namespace")}
        assert {"first", "second"} <= names
    assert not list((tmp_path / "demo").glob("*.db"))
    has_spark = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
    assert has_spark or "pyspark is not installed" in result.output
