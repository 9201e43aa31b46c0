"""The walk of docs/clusters.md, over ZooKeeper instead of SQLite."""

from __future__ import annotations

from pathlib import Path

from compat_tests.zookeeper.server import Ensemble
from kqueue.tests.docs.test_clusters import commands, folder, run

__all__ = ["folder"]
STORE = "kqueue.cluster.store="


def test_three_brokers_by_hand(folder: Path, ensemble: Ensemble) -> None:
    """With the page's sessions: one of 4 s is over before a busy machine starts broker 2 again."""
    store = f"{STORE}zookeeper:{ensemble.address}/docs"
    script = commands("Three brokers by hand")
    assert f"{STORE}sqlite:cluster.db" in script
    printed = run(script.replace(f"{STORE}sqlite:cluster.db", store), folder)
    assert "Broker 3 is no longer registered." in printed
    log = (folder / "broker-2.log").read_text()
    assert "until the session of broker 2's last process ends" in log
