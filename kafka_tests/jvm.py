"""Apache Kafka's jars, fetched once, and a JVM that runs one of its classes."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.0"
JAVA_MIN = 17
LIBS_VARIABLE = "KQUEUE_KAFKA_LIBS"
HEAP = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
FETCH_TIMEOUT_S = 900
TOOL_TIMEOUT_S = 120

_HERE = Path(__file__).parent
_CACHE = _HERE.parent / ".tox" / f"kafka-{KAFKA_VERSION}-libs"


class ToolFailed(Exception):
    """A Java program ended with another status than 0; the message has what it said."""


def java() -> str:
    """The `java` to run: that of JAVA_HOME, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


@functools.cache
def missing() -> str | None:
    """Why Kafka can't be run here; None: it can, once its jars are fetched."""
    version = _java_version()
    if version is None:
        return f"there is no Java ({JAVA_MIN} or newer is needed)"
    if version < JAVA_MIN:
        return f"Java {version} is too old ({JAVA_MIN} or newer is needed)"
    if not _libs_are_there() and shutil.which("mvn") is None:
        return f"there is no Maven to fetch Kafka's jars with, and {LIBS_VARIABLE} names no folder that has them"
    return None


def _java_version() -> int | None:
    try:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _libs_are_there() -> bool:
    return any(_libs_folder().glob(f"kafka-tools-{KAFKA_VERSION}.jar"))


def _libs_folder() -> Path:
    named = os.environ.get(LIBS_VARIABLE)
    return Path(named) if named else _CACHE


@functools.cache
def libs() -> Path:
    """The folder with Kafka's jars; fetched from Maven Central the first time. Raises ToolFailed: that failed."""
    folder = _libs_folder()
    if _libs_are_there():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # fetched beside it and then renamed, so that a fetch that was cut short is not taken for a whole one
    fetched = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        command = ["mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        if done.returncode:
            raise ToolFailed(f"Maven could not fetch Kafka's jars:\n{done.stdout}{done.stderr}")
        shutil.rmtree(folder, ignore_errors=True)
        fetched.rename(folder)
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return folder


def command(main_class: str, *arguments: str, log_level: str = "warn") -> list[str]:
    """The command line that runs a class of Kafka's."""
    logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
    return [java(), *HEAP, logging, "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", f"{libs()}/*", main_class, *arguments]


def run(main_class: str, *arguments: str) -> tuple[str, str]:
    """Run a class of Kafka's to its end; returns what it wrote to stdout and to stderr. Raises ToolFailed."""
    done = subprocess.run(command(main_class, *arguments), capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode:
        raise ToolFailed(f"{main_class} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout, done.stderr
