"""Chooses the Python programs that Spark runs: for the format on the driver, and in executors.

Spark looks up formats, and plans their queries, with one program on the driver:
PYSPARK_DRIVER_PYTHON of Java's environment, else PYSPARK_PYTHON, else ``python3``. It is none of
these in an environment that is not activated, and under Jupyter it is ``jupyter``. Executors would
run the same words, which may be no program there; `EXECUTORS` is a setting that overrides them.
Formats that Python registers have `SparkContext.pythonExec` for both.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import site
import sys
from collections.abc import Iterator, MutableMapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kqueue.spark.errors import PipelineFailed
from kqueue.spark.programs import cache_folder, is_written, plain_name, write_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "PYSPARK_DRIVER_PYTHON"
WORKERS = "PYSPARK_PYTHON"
EXECUTORS = "spark.sql.execution.pyspark.python"
"""Spark's setting of the Python program of executors, in each session; not for RDDs."""
WORKERS_SETTING = "spark.pyspark.python"
ARCHIVES = "spark.archives"
ENVIRONMENT = "environment"
"""The folder that executors unpack the first archive to, where its name does not say another."""
_SCRIPT = """#!/bin/sh
# Made by kqueue for Apache Spark: imports the installed PySpark, not the archive that Spark puts first.
PYTHONPATH=${{PYTHONPATH#*/spark-core_*.jar}}
export PYTHONPATH="${{PYTHONPATH#:}}"
exec {python} "$@"
"""
_THREADS = re.compile(r"local(\[.*\])?")


def is_local(master: str) -> bool:
    """Return whether executors are threads of the driver."""
    return _THREADS.fullmatch(master) is not None


def named_archive(archive: str) -> str:
    """Return an archive with the name of its folder: ``environment.tar.gz#environment``."""
    return archive if "#" in archive else f"{archive}#{ENVIRONMENT}"


@cache
def this_python(package: str = "pyspark") -> str:
    """Return a program that runs this Python with the installed PySpark.

    Spark puts an archive of PySpark first on the path of each process, which compiles it again:
    0.66 s of CPU before it does anything, and 0.21 s without the archive. Spark gives a process
    that plans a stream 10 seconds, which no setting changes, to start and connect. So a script
    takes Spark's own entries off the path.

    `sys.executable` itself where PySpark is not installed in its site-packages, or where no script
    can be written.
    """
    spec = importlib.util.find_spec(package)
    installed = {*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])}
    if os.name != "posix" or spec is None or spec.origin is None or str(Path(spec.origin).parents[1]) not in installed:
        return sys.executable
    script = _SCRIPT.format(python=shlex.quote(sys.executable))
    try:
        file = cache_folder() / "python" / plain_name(Path(sys.executable)) / "python"
        if not is_written(file, script):
            write_program(file, script)
    except (OSError, RuntimeError):  # there is no home
        return sys.executable
    return str(file) if os.access(file, os.X_OK) else sys.executable  # the folder may be mounted without programs


@contextlib.contextmanager
def driver_python(master: str | None, environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Have a Java that is started in the block look up formats with this Python.

    Args:
        master: None: not known before Java has started.
    """
    kept = environ.get(DRIVER)
    shared = environ.get(WORKERS) if master is not None and is_local(master) else None
    environ[DRIVER] = shared or this_python()
    try:
        yield
    finally:
        del environ[DRIVER]
        if kept is not None:
            environ[DRIVER] = kept


@contextlib.contextmanager
def workers_python(program: str, environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Have a Spark that is started in the block run a program in executors, unless PYSPARK_PYTHON
    names one. It is not kept, because the next Spark may have other archives.
    """
    if WORKERS in environ:
        yield
        return
    environ[WORKERS] = program
    try:
        yield
    finally:
        del environ[WORKERS]


def check_archives(settings: Any) -> None:
    """Check that the archives are there that are files of this machine, for which Spark would fail
    with a stack.

    Args:
        settings: with `get(name, default)`.
    Raises: PipelineFailed: one is not there.
    """
    for one in str(settings.get(ARCHIVES, "")).split(","):
        file = one.strip().partition("#")[0].removeprefix("file://")
        if file and ":/" not in file and not Path(file).exists():
            raise PipelineFailed(
                f"there is no file {file} (--archives, or the setting {ARCHIVES}): make it with "
                f"`kqueue pipeline pack {file}`, or name it where it is"
            )


def executor_python(master: str, settings: Any) -> str:
    """Return the program for executors, unless PYSPARK_PYTHON says it.

    That of `WORKERS_SETTING`, else of the first archive, else the one of this process.

    Args:
        settings: with `get(name, default)`.
    """
    if is_local(master):
        return this_python()
    archives = [one.strip() for one in str(settings.get(ARCHIVES, "")).split(",") if "#" in one]
    packed = f"./{archives[0].rpartition('#')[2]}/bin/python" if archives else sys.executable
    return str(settings.get(WORKERS_SETTING, packed))


def register(spark: SparkSession) -> None:
    """Register the format in a session with this process's Python for the driver."""
    from kqueue.spark.datasource import KqueueDataSource

    context = spark.sparkContext
    kept = context.pythonExec
    if not is_local(context.master):
        context.pythonExec = this_python()
    try:
        spark.dataSource.register(KqueueDataSource)
    finally:
        context.pythonExec = kept


def set_executor_python(spark: SparkSession) -> None:
    """Have the session's queries run in executors what RDDs do, unless its user said otherwise."""
    if not is_local(spark.sparkContext.master) and spark.conf.get(EXECUTORS, None) is None:
        spark.conf.set(EXECUTORS, spark.sparkContext.pythonExec)
