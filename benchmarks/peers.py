"""The brokers of a comparison: kqueue as it runs here, kqueue compiled, Apache Kafka and kfake, all
on loopback, with its data in a temporary folder. Kafka needs Java and Maven, kfake needs Go, and
compiling a C compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.cluster import BROKERS, ServedCluster
from benchmarks.served import OwnBroker, Served, ServedProcess, free_port, temporary_folder
from compat_tests.kafka import jvm
from compat_tests.kafka.maven import ToolFailed
from compat_tests.kafka.node import Kafka, new_cluster_id
from compat_tests.languages.toolchains import BUILD_TIMEOUT_S, DownloadFailed, Toolchain, download

KAFKA, KFAKE = "kafka", "kfake"
"""What `--against` accepts."""
PEERS = (KAFKA, KFAKE)
CHECKOUT = Path(__file__).parents[1]
COMPILE_TIMEOUT_S = 900
BUILT_FROM = ("kqueue", "pyspark_kqueue", "pyproject.toml", "setup.py", "build_backend.py", "README.md", "LICENSE")
KFAKE_SOURCE = CHECKOUT / "benchmarks" / "kfake"
# What `bin/kafka-server-start.sh` passes to the JVM.
KAFKA_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
# `config/server.properties` as shipped, as far as it is not Kafka's default.
KAFKA_SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "num.network.threads": 3,
    "num.io.threads": 8,
    "socket.send.buffer.bytes": 102400,
    "socket.receive.buffer.bytes": 102400,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
KAFKA_NAME = f"Kafka {jvm.KAFKA_VERSION.rpartition('.')[0]}"


class Column(NamedTuple):
    """A broker as it is set. `start` returns a context manager, in which it serves."""

    name: str
    start: Callable[[], AbstractContextManager[Served]]


class Missing(Exception):
    """A broker can't be run here; the message says why."""


def _compiled(flush: str) -> OwnBroker:
    return OwnBroker(flush, python=compiled_python())


FLUSHES = ("kafka", "group")
OURS = tuple(Column(f"kqueue, flush={flush}", partial(OwnBroker, flush)) for flush in FLUSHES)
COMPILED = tuple(Column(f"kqueue compiled, flush={flush}", partial(_compiled, flush)) for flush in FLUSHES)
IN_MEMORY, ON_DISK, SYNCED = "kfake, in memory", "kfake, on disk", "kfake, fsync each"
COMPARED = {
    ours.name: theirs
    for build in (OURS, COMPILED)
    for ours, theirs in zip(build, ((KAFKA_NAME, IN_MEMORY, ON_DISK), (SYNCED,)), strict=True)
}
"""With which brokers each of ours is compared: with those that confirm a record as early."""


def columns(peer: str) -> list[Column]:
    """Return the columns of a peer. Raises: Missing."""
    return {KAFKA: _kafka_columns, KFAKE: _kfake_columns}[peer]()


# --- kqueue, compiled


@cache
def compiled_python() -> str:
    """Return an interpreter that has this checkout's kqueue, compiled; it is built once a run.

    Raises: Missing.
    """
    folder = CHECKOUT / ".tox" / "compiled-kqueue"
    python = str(folder / "bin" / "python")
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], timeout=BUILD_TIMEOUT_S, check=True)
        with _temporary() as source:  # a copy, so that building leaves nothing in the checkout
            for name in BUILT_FROM:
                (shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy)(CHECKOUT / name, source / name)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(source)],
                env={**os.environ, "KQUEUE_COMPILE": "1"},
                timeout=COMPILE_TIMEOUT_S,
                check=True,
            )
    except subprocess.SubprocessError as error:
        raise Missing(f"kqueue could not be compiled: {error}") from error
    return python


def compiled_columns() -> list[Column]:
    """Return kqueue's columns once more, compiled. Raises: Missing."""
    if shutil.which("cc") is None:
        raise Missing("there is no C compiler")
    compiled_python()
    return list(COMPILED)


# --- Apache Kafka


def _kafka_columns() -> list[Column]:
    require_kafka()
    return [Column(KAFKA_NAME, kafka)]


def require_kafka() -> None:
    """Fetch Kafka's jars, if need be. Raises: Missing."""
    if reason := jvm.missing():
        raise Missing(reason)
    try:
        jvm.libs()
    except ToolFailed as error:
        raise Missing(str(error)) from error


@contextmanager
def kafka() -> Iterator[Served]:
    """Start a node with the settings and the heap that Kafka ships."""
    with _temporary() as folder:
        node = Kafka(folder / "kafka", defaults=KAFKA_SETTINGS, options=KAFKA_OPTIONS)
        node.format()
        yield from _serving(node)


def _serving(node: Kafka) -> Iterator[Served]:
    began = time.monotonic()
    try:
        node.start()
        served = Served(node.bootstrap, node.pid)
        served.start_s = time.monotonic() - began
        yield served
    finally:
        node.kill()


class KafkaCluster(ServedCluster):
    """Three nodes, the first of them the controller, too."""

    def _start(self, cleanup: ExitStack) -> Iterator[tuple[int, Served]]:
        folder = cleanup.enter_context(_temporary())
        cluster_id = new_cluster_id()
        controller = ""
        for number in range(BROKERS):
            node = Kafka(folder / str(number), defaults=KAFKA_SETTINGS, options=KAFKA_OPTIONS)
            if number == 0:
                controller = f"127.0.0.1:{node.ports[1]}"
                node.format(cluster_id, "--standalone")
            else:
                node.settings = {
                    "process.roles": "broker",
                    "node.id": number + 1,
                    "listeners": f"PLAINTEXT://{node.bootstrap}",
                    "controller.quorum.bootstrap.servers": controller,
                }
                node.format(cluster_id)
            cleanup.callback(node.kill)
            node.start()
            yield number + 1, Served(node.bootstrap, node.pid)


# --- kfake


def _kfake_columns() -> list[Column]:
    program = str(kfake_program())
    return [
        Column(IN_MEMORY, partial(_kfake, program)),
        Column(ON_DISK, partial(_kfake, program, on_disk=True)),
        Column(SYNCED, partial(_kfake, program, "--sync", on_disk=True)),
    ]


def build_kfake(folder: Path) -> dict[str, list[str]]:
    """Build the program that serves kfake. Raises: DownloadFailed; CalledProcessError."""
    download("Go's modules", ["go", "mod", "download"], KFAKE_SOURCE)
    command = ["go", "build", "-o", str(folder / "kfake"), "."]
    subprocess.run(command, cwd=KFAKE_SOURCE, timeout=BUILD_TIMEOUT_S, check=True)
    return {"kfake": [str(folder / "kfake")]}


GO = Toolchain("Go", "go", build_kfake)


@cache
def kfake_program() -> Path:
    """Return the program, which is built once. Raises: Missing."""
    if reason := GO.missing():
        raise Missing(reason)
    folder = CHECKOUT / ".tox" / "kfake"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (program,) = GO.build(folder)["kfake"]
    except (DownloadFailed, subprocess.SubprocessError) as error:
        raise Missing(str(error)) from error
    return Path(program)


def _kfake(program: str, *options: str, on_disk: bool = False) -> ServedProcess:
    folder, port = temporary_folder(), free_port()
    data = ["--data", str(folder / "data")] if on_disk else []
    return ServedProcess([program, "--port", str(port), *data, *options], port, folder)


@contextmanager
def _temporary() -> Iterator[Path]:
    folder = temporary_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
