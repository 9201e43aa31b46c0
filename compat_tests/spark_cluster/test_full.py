"""Jobs on a cluster that has no room for them, or no master."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import kqueue
from compat_tests.spark.killing import said
from compat_tests.spark_cluster.conftest import KQUEUE, LITTLE, Filled, run
from compat_tests.spark_cluster.standalone import DEADLINE_S, Standalone
from kqueue.testing.process_environment import process_environment

LARGE = "spark.executor.memory=1200m"
"""More than a worker of the cluster has."""


def job(cluster: Standalone, broker: kqueue.Broker, topic: str) -> list[str | Path]:
    words = ("pipeline", "archive", "kept", "-t", topic, "-b", broker.bootstrap, "--master", cluster.master)
    return [KQUEUE, *words, *LITTLE, "--conf", LARGE]


def test_jobs_without_an_executor_say_so_and_go_on_or_end(
    cluster: Standalone, broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    """Until another worker comes, which has no kqueue: the job's error is its own.

    Another job ends after its timeout while this one waits.
    """
    waiting = subprocess.Popen(
        job(cluster, broker, filled(1)), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env=process_environment(PYSPARK_PYTHON=str(cluster.python)),
    )  # fmt: skip
    large = None
    try:
        check_timeout(cluster, broker, filled(1), tmp_path / "other")
        assert waiting.stderr is not None
        line = next(said(waiting.stderr))
        # as late as the machine is slow
        assert re.match(r"The cluster has given no executor for \d+ s, and the job waits: ", line), line
        assert "1200m of memory (spark.executor.memory)" in line
        assert f"{cluster.master} may have no machine with as much to spare" in line
        large = cluster.start_worker("1300m")
        rest = list(said(waiting.communicate(timeout=DEADLINE_S)[1].splitlines()))
    finally:
        waiting.kill()
        waiting.wait()
        if large is not None:
            cluster.kill_worker(large)
    assert rest[0] == "The cluster has given 1 executor: the job goes on."
    assert "has no kqueue, pyarrow, pandas" in rest[1]
    assert len(rest) == 2, rest
    assert waiting.returncode == 1
    assert not (tmp_path / "kept").exists()


def check_timeout(cluster: Standalone, broker: kqueue.Broker, topic: str, folder: Path) -> None:
    folder.mkdir()
    done = run(*job(cluster, broker, topic), "--executor-timeout", "2", cwd=folder)
    assert done.returncode == 1
    (line,) = said(done.stderr.splitlines())
    assert line.startswith("Error: the cluster has given no executor for 2 s: an executor is to have 1200m of")
    assert not any(folder.iterdir())


def test_a_master_that_does_not_answer_is_named(broker: kqueue.Broker, filled: Filled, tmp_path: Path) -> None:
    words = ("pipeline", "archive", "kept", "-t", filled(1), "-b", broker.bootstrap, "--master", "spark://127.0.0.1:1")
    done = run(KQUEUE, *words, cwd=tmp_path)
    assert done.returncode == 1
    (line,) = said(done.stderr.splitlines())
    assert line.startswith("Error: no master of a Spark cluster answers at spark://127.0.0.1:1 (127.0.0.1:1: ")
