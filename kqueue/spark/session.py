"""Builds the session that jobs, examples and tests run in."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.console_output import py4j_silenced
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
STREAM_ENVIRONMENT = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What each stream enters, over these values (Spark's PythonStreamingSourceRunner)."""
WORDS_MAX = 1000
_OURS = re.compile(r"^(?:\w+: )?kqueue(?:\.\w+)*\.errors\.\w+: (.+)$", re.MULTILINE)
QUIET_LOG = Path(__file__).with_name("log4j2.properties")
CALM: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def session(
    app: str = "kqueue", master: str = LOCAL, *, settings: Mapping[str, object] | None = None, quiet: bool = True
) -> SparkSession:
    """A Spark session; the one that is there already, if there is one, which keeps its master and
    its memory.

    It finds a Java (see `find_java`), and sets JAVA_HOME for this process where Spark would not
    find it. On a ``local`` master the workers run this very Python (unless PYSPARK_PYTHON names
    another), and Spark listens on this machine alone.

    Args: app: its name. master: where to run: ``local[*]``, ``local[2]``, ``spark://host:7077``, …;
    on a cluster the workers' Python must have kqueue too. settings: of Spark, by their names, over
    those that we set. quiet: its log tells errors alone. Raises ExtraNeeded: pyspark or a Java is
    missing; the message says how to get it.
    """
    try:
        sql = importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise ExtraNeeded(f"jobs on Spark need pyspark ({error}): {install_hint('spark')}") from None
    if not _is_running():
        java = find_java()
        if java.origin != "JAVA_HOME":
            os.environ["JAVA_HOME"] = str(java.home)
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.appName(app).master(master)
    for name, value in _settings(master, settings or {}, quiet).items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    prepare(made)
    return made


def isolated_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session on the same Spark with settings of a job's own, which are no business of its
    user's. It has the format, and is prepared.
    """
    from kqueue.spark.datasource import KqueueDataSource

    own = spark.newSession()
    for name, value in settings.items():
        own.conf.set(name, value)
    own.dataSource.register(KqueueDataSource)  # Spark does not find it by itself where kqueue is installed as editable
    prepare(own)
    return own


def prepare(spark: SparkSession) -> None:
    """Once, before several streaming queries are started at the same time in a session that
    `session` has not made, or that has registered the format anew.

    Every stream from Python enters its worker's environment into one map of the format's, which
    Spark 4.2 and 4.3 don't guard. Two that do so at once can break it, and with it all that asks
    for the format until Spark is started anew ("Illegal size 5 of collection, expected 6"). Names
    that are in it already are safe. Costs as much as the first use of any format, which then is
    quick.
    """
    from kqueue.spark.datasource import NAME

    formats = spark._jsparkSession.sessionState().dataSourceManager()
    if formats.dataSourceExists(NAME):
        environment = formats.lookupDataSource(NAME).dataSourceCls().envVars()
        for name, value in STREAM_ENVIRONMENT.items():
            environment.putIfAbsent(name, value)


def activate(spark: SparkSession) -> None:
    """Have `spark` for the session of this thread. Spark looks for a sink from Python there alone,
    and a new thread has none.
    """
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


@contextlib.contextmanager
def job_session(app: str, master: str = LOCAL) -> Iterator[SparkSession]:
    """A session for one job; one that runs in this process already is taken, and left running.

    Raises: ExtraNeeded, as `session`. PipelineFailed: in place of an error of Spark's, in its words
    but without its stack.
    """
    running = _is_running()
    with _plain_errors(), py4j_silenced():
        spark = session(app, master)
        try:
            yield spark
        finally:
            if not running:
                spark.stop()


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # those of Spark and of the bridge to its Java have no other parent in common
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise PipelineFailed(error_summary(error)) from None


def error_summary(error: Exception) -> str:
    """What Spark says, without where in its Java it says so; or what an error of ours said that
    Spark has come upon in a query.
    """
    ours = _OURS.findall(str(error))
    if ours:
        return str(ours[-1]).strip()[:WORDS_MAX]
    words = re.split(r"JVM stacktrace|\n\s+at [\w.$]+\(", str(error))[0]
    return " ".join(words.split())[:WORDS_MAX]


def _is_running() -> bool:
    """Whether this process has a Spark already; without pyspark there is none. A session is active
    in single threads, which tells less.
    """
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _settings(master: str, given: Mapping[str, object], quiet: bool) -> dict[str, str]:
    found = dict(CALM)
    if not quiet:
        del found["spark.log.level"]
    if master.startswith("local"):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    found |= {name: _text(value) for name, value in given.items()}
    if quiet:
        java_options = (
            f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()} {found.get('spark.driver.extraJavaOptions', '')}"
        )
        found["spark.driver.extraJavaOptions"] = java_options.strip()
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
