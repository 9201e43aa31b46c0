"""Java, and jars from Maven Central that are fetched once: for tests that put programs of the JVM
beside kqueue.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

JAVA_MIN = 17
FETCH_TIMEOUT_S = 300
VERSION_TIMEOUT_S = 60
KEPT_IN = Path(__file__).parents[2] / ".tox"


class ToolFailed(Exception):
    """A Java program ended with another status than 0; the message has what it said."""


def java() -> str:
    """The `java` to run: that of JAVA_HOME, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


@functools.cache
def java_missing() -> str | None:
    """Why nothing of Java can be run here; None: it can."""
    version = _java_version()
    if version is None:
        return f"there is no Java ({JAVA_MIN} or newer is needed)"
    return f"Java {version} is too old ({JAVA_MIN} or newer is needed)" if version < JAVA_MIN else None


def _java_version() -> int | None:
    try:
        said = subprocess.run(
            [java(), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Keep other processes out that make files in this folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".fetching").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Jars(NamedTuple):
    """The jars that a `pom.xml` names.

    `name`: of the folder that keeps them; it has to change with their versions. `mark`: the file
    name of the jar that tells that they are there. `variable`: of the environment, names a folder
    that has them already.
    """

    what: str
    pom: Path
    name: str
    mark: str
    variable: str

    @property
    def folder(self) -> Path:
        """Where they are, or will be."""
        named = os.environ.get(self.variable)
        return Path(named) if named else KEPT_IN / self.name

    @property
    def are_there(self) -> bool:
        return (self.folder / self.mark).is_file()

    def missing(self) -> str | None:
        """Why they can't be had here; None: they are there, or can be fetched."""
        if self.are_there or shutil.which("mvn") is not None:
            return None
        return f"there is no Maven to fetch {self.what} with, and {self.variable} names no folder that has them"

    def fetch(self) -> Path:
        """The folder with the jars; fetched from Maven Central the first time. Raises ToolFailed:
        that failed.
        """
        folder = self.folder
        if self.are_there:
            return folder
        # runs beside this one may want the same jars, and Maven keeps all in one folder
        with one_at_a_time(folder.parent):
            if not self.are_there:
                self._fetch_into(folder)
        return folder

    def _fetch_into(self, folder: Path) -> None:
        # fetched beside it and then renamed, so that a fetch that was cut short is not taken for a
        # whole one
        fetched = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        try:
            command = [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(self.pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={fetched}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
            if done.returncode:
                raise ToolFailed(f"Maven could not fetch {self.what}:\n{done.stdout}{done.stderr}")
            shutil.rmtree(folder, ignore_errors=True)
            fetched.rename(folder)
        finally:
            shutil.rmtree(fetched, ignore_errors=True)
