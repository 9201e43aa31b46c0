"""Fixtures of ``pytest compat_tests/spark_cluster``: a cluster, this environment packed.

They need an environment that can be packed: a virtual one, without editable installs.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.spark_home import spark_home
from compat_tests.spark_cluster.standalone import DEADLINE_S, JAVA, SETTINGS, Standalone
from kqueue.cli.pipeline import progress_line
from kqueue.spark.session import session
from kqueue.testing.process_environment import process_environment

KQUEUE = Path(sys.executable).with_name("kqueue")
LITTLE = tuple(
    word
    for setting in (
        "spark.executor.memory=512m",
        "spark.cores.max=1",
        f"spark.executor.extraJavaOptions={JAVA}",
        f"spark.driver.extraJavaOptions={JAVA}",
    )
    for word in ("--conf", setting)
)
"""Options for programs of their own: executors with this memory, and one of them."""
DRIVERS = (
    "botocore", "fontTools", "hypothesis", "kiwisolver", "kubernetes_validate", "matplotlib", "moto", "PIL",
    "pillow.libs", "pyiceberg", "sqlalchemy",
)  # fmt: skip
"""Packages that executors have no use for."""
Filled = Callable[..., str]
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of programs first, because the session of the others holds the cluster's cores."""
    items.sort(key=lambda item: [name in getattr(item, "fixturenames", ()) for name in ("spark", "late_spark")])


@pytest.fixture(scope="session", autouse=True)
def not_activated(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have no environment activated, as after `/venv/bin/kqueue`, and of Spark only its home."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"):
        os.environ.pop(name, None)
    os.environ["PATH"] = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if folder != str(KQUEUE.parent)
    )
    home = spark_home(tmp_path_factory.mktemp("home") / "spark")
    os.environ |= {"MALLOC_ARENA_MAX": "2", "SPARK_HOME": str(home), "SPARK_LAUNCHER_OPTS": JAVA}
    progress_line.PERIOD_S = 3600.0  # else lines come between those that tests expect


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing of this process's Spark."""
    return subprocess.run(
        command, cwd=cwd, env=process_environment(**environment), capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack this environment as users do; not compressed, because each program unpacks it twice."""
    folder = tmp_path_factory.mktemp("packed")
    without = [word for name in DRIVERS for word in ("--without", name)]
    done = run(KQUEUE, "pipeline", "pack", "--compression", "0", *without, cwd=folder)
    assert done.returncode == 0, done.stderr
    made = folder / "environment.tar.gz"
    assert f"The workers need Python {sys.version_info[0]}.{sys.version_info[1]} in {sys.base_prefix}." in done.stdout
    return made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Start a master and two workers that have no kqueue."""
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(cluster: Standalone, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a session on the cluster, with the packed environment."""
    folder = tmp_path_factory.mktemp("driver")
    made = session(
        "cluster",
        cluster.master,
        settings=SETTINGS | {"spark.archives": f"{archive}#environment", "spark.local.dir": folder},
    )
    yield made
    made.stop()
    os.environ.pop("PYSPARK_PYTHON", None)


@pytest.fixture
def late_spark(request: pytest.FixtureRequest) -> Callable[[], SparkSession]:
    """Return a function that starts `spark` on its first call."""
    return lambda: request.getfixturevalue("spark")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kqueue.Broker]:
    """Start a broker with a folder, without auto-creation of topics."""
    with kqueue.Broker(tmp_path / "data", auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture
def filled(broker: kqueue.Broker) -> Filled:
    """Return ``filled(count, name)``, which makes a topic with so many records."""

    def make(count: int, name: str = "") -> str:
        name = name or f"orders-{next(_numbers)}"
        broker.create_topic(name, 4)
        for number in range(count):
            broker.topics[name].produce(f"order {number}", key=f"customer {number % 17}")
        return name

    return make
