"""The demonstration of a cluster, with its metadata in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import psycopg
from click.testing import CliRunner

from compat_tests.postgres.server import Server
from kqueue.cli.app import kqueue


def test_no_flight_is_lost_with_metadata_in_postgres(tmp_path: Path, own_server: Server) -> None:
    options = ["--folder", str(tmp_path / "demo"), "--flights", "3000", "--store", own_server.address]
    result = CliRunner().invoke(kqueue, ["demo", "cluster", *options])
    assert result.exit_code == 0, result.output
    assert "All 3,000 flights came back, each once and in order, and three logs are equal." in result.output
    assert not (tmp_path / "demo" / "cluster.db").exists()
    with psycopg.connect(own_server.address) as connection:
        names = connection.execute("select nspname from pg_namespace").fetchall()
    assert ("kqueue",) in names
