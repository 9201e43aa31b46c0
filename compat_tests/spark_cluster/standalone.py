"""A standalone Spark cluster: a master and workers as processes, from pyspark's own jars."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from compat_tests.spark.spark_home import spark_home
from compat_tests.waits import eventually
from kqueue.spark.java import find_java

DEADLINE_S = 240
"""What ends a hang: a starved machine takes a minute to start Java."""
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "500m",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": 2,
    # Tasks that take long have a second attempt; those of most tests do not.
    "spark.speculation": True,
    "spark.speculation.minTaskRuntime": "3s",
    "spark.speculation.multiplier": 1.1,
    "spark.speculation.quantile": 0.5,
}


class Standalone:
    """A master and two workers of one core each, with nothing of this process's environment.

    Workers find no kqueue: `python` is one of an empty environment. A master that is started again
    knows its workers and applications (recoveryMode). `workers`: those that run.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.python = folder / "bare" / "bin" / "python"
        self.master = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._home = spark_home(folder / "spark")
        self._count = workers
        self._numbers = itertools.count()
        self._master: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "bare"], check=True)
        self.start_master("0")
        for _ in range(self._count):
            self.start_worker()
        self._await_in_master_log("Registering worker", self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers, self._master):
            if process is not None:
                kill(process)

    def start_master(self, port: str) -> None:
        said = "Starting Spark master at "
        before = self._log("master").count(said)
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", "--port", port)
        self._await_in_master_log(said, before + 1)
        self.master = re.findall(rf"{said}(\S+)", self._log("master"))[-1]

    def kill_master(self) -> None:
        """Kill the master, and start it again at its address."""
        assert self._master is not None
        kill(self._master)
        recovered = self._log("master").count("Recovery complete")
        self.start_master(self.master.rpartition(":")[2])
        self._await_in_master_log("Recovery complete", recovered + 1)

    def _await_in_master_log(self, text: str, count: int) -> None:
        what = f"{text!r} in the master's log, {count} times"
        eventually(lambda: self._log("master").count(text) >= count, what, DEADLINE_S)

    def start_worker(self, memory: str = "1g") -> subprocess.Popen[bytes]:
        """Start another worker on a host of its own: Spark gives no host two attempts of a task."""
        number = next(self._numbers)
        host = f"127.0.0.{2 + number}"
        arguments = ("--cores", "1", "--memory", memory, "--work-dir", str(self.folder / f"work-{number}"))
        made = self._start(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *arguments, self.master, host=host
        )
        self.workers.append(made)
        return made

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker with its executors."""
        kill(worker)
        self.workers.remove(worker)

    def executors(self) -> list[psutil.Process]:
        """Return the executors, which are children of the workers."""
        processes = []
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                processes += [one for one in psutil.Process(worker.pid).children(recursive=True) if _is_executor(one)]
        return processes

    def _log(self, name: str) -> str:
        log = self.folder / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def _start(self, name: str, main: str, *arguments: str, host: str = "127.0.0.1") -> subprocess.Popen[bytes]:
        environment = {
            "HOME": str(self.folder),
            "JAVA_HOME": str(find_java().home),
            "MALLOC_ARENA_MAX": "2",
            "PATH": f"{self.python.parent}:/usr/bin:/bin",
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA} -Dspark.worker.timeout=60",
            "SPARK_MASTER_OPTS": "-Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": host,
        }
        command = [self._home / "bin" / "spark-class", main, "--host", host, "--webui-port", "0", *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.NoSuchProcess:  # one that was killed, and that its parent has not looked at yet
        return False


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children with SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
