"""The walk of docs/clusters.md, over PostgreSQL instead of SQLite."""

from __future__ import annotations

from pathlib import Path

from compat_tests.postgres.server import Server
from kqueue.tests.docs.test_clusters import commands, folder, run

__all__ = ["folder"]
STORE = "kqueue.cluster.store="


def test_three_brokers_by_hand(folder: Path, own_server: Server) -> None:
    script = commands("Three brokers by hand")
    assert f"{STORE}sqlite:cluster.db" in script
    printed = run(script.replace(f"{STORE}sqlite:cluster.db", f"{STORE}{own_server.address}"), folder)
    assert "Broker 3 is no longer registered." in printed
