"""`local-cluster[…]`: executors are processes, and master and workers threads of the driver."""

from __future__ import annotations

from pathlib import Path

import kqueue
from compat_tests.spark.spark_home import spark_home
from compat_tests.spark_cluster.conftest import KQUEUE, LITTLE, Filled, run


def test_a_job_on_processes_of_one_machine(broker: kqueue.Broker, filled: Filled, tmp_path: Path) -> None:
    """Without an archive: executors run the driver's Python. Spark works in SPARK_HOME."""
    home = spark_home(tmp_path / "home")
    words = ("pipeline", "archive", tmp_path / "kept", "-t", filled(100), "-b", broker.bootstrap)
    done = run(KQUEUE, *words, "--master", "local-cluster[1,1,512]", *LITTLE, cwd=tmp_path, SPARK_HOME=str(home))
    assert "Archived 100 records" in done.stdout, done.stderr
    (application,) = (home / "work").iterdir()
    assert any(application.iterdir())
