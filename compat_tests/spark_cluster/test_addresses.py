"""Addresses of brokers that the driver can't reach are named before Spark starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, str]]:
    """Start a broker that advertises a port where nobody listens.

    Yield the address where it is, and the other one.
    """
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, nobody = one.getsockname()[1], other.getsockname()[1]
    advertised = f"127.0.0.1:{nobody}"
    with kqueue.Broker(port=port, settings={"advertised.listeners": f"PLAINTEXT://{advertised}"}):
        yield f"127.0.0.1:{port}", advertised


JOBS = {
    "archive": ("out", "--topic", "orders"),
    "ingest": ("out", "--topic", "orders", "--events", "flights"),
    "replay": ("out",),
    "audit": ("--topic", "orders"),
}


@pytest.mark.parametrize("job", JOBS)
def test_an_advertised_address_is_named(
    spark: SparkSession, elsewhere: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    bootstrap, advertised = elsewhere
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["pipeline", job, *JOBS[job], "-b", bootstrap])
    assert done.exit_code in (1, 2)
    assert f"this machine does not reach {advertised} (Connection refused), as the broker calls itself" in done.stderr
    assert "advertised.listeners" in done.stderr
    assert done.output.count("\n") == 1
    assert not (tmp_path / "out").exists()
