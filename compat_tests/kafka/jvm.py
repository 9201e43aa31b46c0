"""Apache Kafka's jars, fetched once, and a JVM that runs one of its classes."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.kafka.maven import KEPT_IN, Jars, ToolFailed, java, java_missing

__all__ = ["KAFKA_VERSION", "ToolFailed", "command", "libs", "missing", "run"]

KAFKA_VERSION = "4.3.0"
HEAP = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
# they compile little, and simply: most of these JVMs live for seconds
OPTIONS = (*HEAP, "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=5")
TOOL_TIMEOUT_S = 60
_JARS = Jars(
    what="Kafka's jars",
    pom=Path(__file__).parent / "pom.xml",
    name=f"kafka-{KAFKA_VERSION}-libs",
    mark=f"kafka-tools-{KAFKA_VERSION}.jar",
    variable="KQUEUE_KAFKA_LIBS",
)


@functools.cache
def missing() -> str | None:
    """Why Kafka can't be run here; None: it can, once its jars are fetched."""
    return java_missing() or _JARS.missing()


@functools.cache
def libs() -> Path:
    """The folder with Kafka's jars; fetched from Maven Central the first time. Raises ToolFailed:
    that failed.
    """
    return _JARS.fetch()


@functools.cache
def class_archive() -> Path:
    """Where the classes that a node loads are kept as the JVM has them in memory: it starts in two
    thirds of the time then. `node.archive_classes` makes the file; a JVM passes over one that was
    made by another Java or with other jars.
    """
    return kept(f"kafka-{KAFKA_VERSION}", ".jsa")


def kept(name: str, suffix: str = "", *contents: bytes) -> Path:
    """Where a file or folder is kept from run to run that is made of these contents, by this Java
    and with these jars.
    """
    version = subprocess.run([java(), "-version"], capture_output=True, check=True, timeout=TOOL_TIMEOUT_S).stderr
    made_of = hashlib.sha256(b"".join([version, str(libs()).encode(), *contents])).hexdigest()
    return KEPT_IN / f"{name}-{made_of[:12]}{suffix}"


def command(
    main_class: str,
    *arguments: str,
    log_level: str = "warn",
    classpath: Sequence[Path] = (),
    options: Sequence[str] = OPTIONS,
) -> list[str]:
    """The command line that runs a class of Kafka's, or one in a folder of `classpath`. `options`:
    of the JVM; the archive of classes fits only those that it was made with.
    """
    logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    # -Xlog: nothing about the archive in what a tool prints
    is_archived = options == OPTIONS and class_archive().exists()
    archived = ["-Xlog:disable", f"-XX:SharedArchiveFile={class_archive()}"] if is_archived else []
    return [
        java(),
        *options,
        *archived,
        logging,
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-cp",
        ":".join([f"{libs()}/*", *map(str, classpath)]),
        main_class,
        *arguments,
    ]


def run(main_class: str, *arguments: str) -> tuple[str, str]:
    """Run a class of Kafka's to its end; returns what it wrote to stdout and to stderr. Raises
    ToolFailed.
    """
    done = subprocess.run(
        command(main_class, *arguments), capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise ToolFailed(f"{main_class} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout, done.stderr
