"""Fixtures of ``pytest compat_tests/spark_connect``: a server of Spark Connect, a session on it.

A process has either sessions of its own or remote ones, so these tests are apart from those of
`compat_tests/spark`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import kqueue
import pyspark_kqueue
from kqueue.cli.pipeline import progress_line
from kqueue.spark.pythons import this_python
from kqueue.spark.session import session
from kqueue.testing.process_environment import process_environment

TEXT = (Path(__file__).parents[2] / "docs" / "spark-connect.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SPARK_HOME = Path(pyspark.__path__[0])
OWN_PYTHON = 'python -c "import sys; print(sys.executable)"'
START_S = 200
STOP_S = 20
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
DEFAULTS = """\
spark.driver.memory 600m
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.extraJavaOptions {java}
spark.default.parallelism 2
spark.sql.shuffle.partitions 2
spark.sql.streaming.noDataMicroBatches.enabled false
spark.sql.streaming.checkpointFileManagerClass \
org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
spark.ui.enabled false
spark.log.level ERROR
spark.local.dir {folder}/scratch
spark.sql.warehouse.dir {folder}/warehouse
"""


def documented(kind: str) -> list[str]:
    """Return the blocks of docs/spark-connect.md of one language."""
    return [text for language, text in BLOCKS if language == kind]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of Spark's programs: this Python first, and settings for short tests.

    Java looks packages up that an editable installation hides.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), str(SPARK_HOME / "bin"), os.environ["PATH"]))
    return process_environment() | {
        "PATH": path,
        "PYTHONPATH": str(Path(pyspark_kqueue.__file__).parents[1]),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LAUNCHER_OPTS": JAVA,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder / "logs"),
        "SPARK_PID_DIR": str(folder / "pids"),
        "MALLOC_ARENA_MAX": "2",
        "PYSPARK_PYTHON": sys.executable,
    }


@pytest.fixture(scope="session", autouse=True)
def no_progress_lines() -> None:
    """Keep these lines from coming between those that tests expect."""
    progress_line.PERIOD_S = 3600.0


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(DEFAULTS.format(folder=folder, java=JAVA))
    return folder


@pytest.fixture(scope="session")
def server(spark_folder: Path) -> Iterator[str]:
    """Start a server by the documented commands; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    commands = documented("sh")[0]
    for written, here in (("15002", str(port)), (OWN_PYTHON, f"echo {this_python()}")):
        assert commands.count(written) == 1
        commands = commands.replace(written, here)
    log = spark_folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-euc", commands], stdout=out, stderr=out, env=environment(spark_folder), cwd=spark_folder,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_S
        while not _listens(port):
            is_late = time.monotonic() > deadline
            assert process.poll() is None, log.read_text()[-3000:]
            assert not is_late, log.read_text()[-3000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        finally:
            _kill(process.pid)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _kill(group: int) -> None:
    """Kill what is left of a process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="session")
def spark(server: str) -> Iterator[SparkSession]:
    made = session("kqueue tests", server)
    yield made
    made.stop()


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        yield running


def fill(broker: kqueue.Broker, topic: str = "orders", count: int = 100) -> None:
    """Create a topic with three partitions and records ``order N`` with one of seven keys."""
    broker.create_topic(topic, 3)
    for number in range(count):
        broker.topics[topic].produce(f"order {number}", key=f"customer {number % 7}")


def values(broker: kqueue.Broker, topic: str) -> list[str]:
    """Return the values of committed records, sorted."""
    records = broker.topics[topic].records(read_committed=True)
    return sorted((record.value or b"").decode() for record in records)
