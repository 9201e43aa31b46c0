"""Builds the Spark session of jobs, examples and tests."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark import pythons
from kqueue.spark.console_output import py4j_silenced
from kqueue.spark.errors import JAVA_ENDED, PipelineFailed, error_summary, is_java_lost
from kqueue.spark.executor_wait import check_master, executors_awaited
from kqueue.spark.java import ended_unless_started, find_java
from kqueue.spark.remote import connect, is_remote, no_server, refuse_remote, server_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
LOCAL = "local[*]"
MASTER = "spark.master"
STREAM_ENVIRONMENT = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""The environment variables that each stream sets (Spark's PythonStreamingSourceRunner)."""
QUIET_LOG = Path(__file__).with_name("log4j2.properties")
SECRETS = "(?i)secret|password|token|access[.]?key|jaas|ssl[.]keystore[.](key|certificate)|url"
"""Options whose values Spark replaces where it shows them: its own two lists, and Kafka's names."""
CALM: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": SECRETS,
    "spark.sql.redaction.options.regex": SECRETS,
}


def session(
    app: str = "kqueue",
    master: str | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    quiet: bool = True,
    check: bool = True,
) -> SparkSession:
    """Return a Spark session; an existing one keeps its master and memory settings.

    Finds a Java (see `find_java`) and sets JAVA_HOME for this process if Spark would not find it.
    The driver runs this Python for the format. Workers run what PYSPARK_PYTHON says, else the
    setting spark.pyspark.python, else that of the first of spark.archives, else this Python. On a
    ``local`` master Spark listens on the loopback interface only.

    Args:
        app: the application name.
        master: ``local[*]``, ``local[2]``, ``spark://host:7077``, …; on a cluster the workers'
            Python needs kqueue too. ``sc://host:15002``: a server of Spark Connect, whose Python
            needs kqueue. None: SPARK_REMOTE if that is such a server, else that of `settings`, of
            spark-submit or of spark-defaults.conf, else ``local[*]``.
        settings: Spark settings; they override kqueue's.
        quiet: Spark logs errors only. A server of Spark Connect logs as it did.
        check: see `prepare`. A new session ends if the check fails.
    Raises: ExtraNeeded: pyspark or Java is missing; the message says how to install it.
        PipelineFailed: as `prepare`, or no master answers. PipelineFailed, OptionError: as
        `kqueue.spark.remote.connect`.
    """
    sql = import_pyspark()
    running = _is_running()
    given = {name: _text(value) for name, value in (settings or {}).items()}
    url = server_url(master or given.get(MASTER))
    if url is not None:
        given.pop(MASTER, None)
        return _remote(sql, app, url, given, check)
    if master is not None:
        given[MASTER] = master
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_server())
        if not running:
            check_master(given.get(MASTER, ""))  # before Java says anything
            java = find_java()
            if java.origin != "JAVA_HOME":
                os.environ["JAVA_HOME"] = str(java.home)
            known = _start_java(_settings(given.get(MASTER), given, quiet))
            given[MASTER] = str(known.get(MASTER, LOCAL))
            check_master(given[MASTER])
            pythons.check_archives(known)
            stack.enter_context(pythons.workers_python(pythons.executor_python(given[MASTER], known)))
        builder = sql.SparkSession.builder.appName(app)
        for name, value in _settings(given.get(MASTER), given, quiet).items():
            builder = builder.config(name, value)
        made: SparkSession = builder.getOrCreate()
    try:
        prepare(made, check=check)
    except PipelineFailed:
        if not running:
            made.stop()
        raise
    return made


def _remote(sql: Any, app: str, url: str, given: Mapping[str, str], check: bool) -> SparkSession:
    was_connected = _is_connected()
    made = connect(sql, app, url, CALM, given)
    try:
        prepare(made, check=check)
    except PipelineFailed:
        if not was_connected:
            made.stop()
        raise
    return made


def _start_java(settings: Mapping[str, str]) -> Any:
    """Start Java unless there is one, as under spark-submit; return the settings of the application
    to be, with those that Java found in spark-defaults.conf and the like.
    """
    import pyspark

    given = pyspark.SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with pythons.driver_python(settings.get(MASTER)), ended_unless_started():
        pyspark.SparkContext._ensure_initialized(conf=given)
    return pyspark.SparkConf().setAll(list(settings.items()))


def import_pyspark() -> Any:
    """Return the module `pyspark.sql`. Raises: ExtraNeeded."""
    try:
        return importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise ExtraNeeded(f"jobs on Spark need pyspark ({error}): {install_hint('spark')}") from None


def isolated_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session on the same Spark with a job's settings, separate from the user's.

    It has the format registered and is prepared. Raises: PipelineFailed: through Spark Connect.
    """
    refuse_remote(spark, "this job")
    own = spark.newSession()
    for name, value in settings.items():
        own.conf.set(name, value)
    # Spark does not find the format by itself where kqueue is installed as editable, and refuses to
    # register one that the active session has, even in a session that lacks it.
    activate(own)
    try:
        prepare(own, check=False)
    finally:
        activate(spark)
    return own


def prepare(spark: SparkSession, *, check: bool = True) -> None:
    """Make a session that `session` did not create ready for the format.

    Registers the format if Spark does not find it, sets the Python of executors (see `session`),
    and makes concurrent starts of streaming queries safe. Call it again in a session that
    registered the format again.

    Every Python stream inserts its worker environment into one map of the format, which Spark 4.2
    and 4.3 do not lock. Two concurrent inserts can corrupt the map; every later use of the format
    then fails until Spark restarts ("Illegal size 5 of collection, expected 6"). Inserting the keys
    beforehand avoids this. It costs as much as the first use of a format, which is then fast.

    Through Spark Connect the map is out of reach, but each registration has one of its own: there
    call it before each of the queries that start at the same time.

    Args:
        check: on a cluster, look by a small job whether the executors that there are have this
            kqueue; it waits for the first of them. A query would fail in tasks, with a stack.
            Through Spark Connect always.
    Raises: PipelineFailed: names what executors lack, and the remedy.
    """
    from kqueue.spark.datasource import NAME, KqueueDataSource
    from kqueue.spark.executors import check_executors

    if is_remote(spark):
        spark.dataSource.register(KqueueDataSource)
        if check:
            check_executors(spark)
        return
    formats = spark._jsparkSession.sessionState().dataSourceManager()
    if not formats.dataSourceExists(NAME):
        pythons.register(spark)
    pythons.set_executor_python(spark)
    environment = formats.lookupDataSource(NAME).dataSourceCls().envVars()
    for name, value in STREAM_ENVIRONMENT.items():
        environment.putIfAbsent(name, value)
    if check:
        with executors_awaited(spark, logger.warning):
            check_executors(spark)


def activate(spark: SparkSession) -> None:
    """Make `spark` the active session of this thread.

    Spark looks up Python sinks only in the thread's active session, and a new thread has none.
    A server of Spark Connect sees to that itself.
    """
    if is_remote(spark):
        return
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


@contextlib.contextmanager
def job_session(
    app: str, master: str | None = None, settings: Mapping[str, object] | None = None
) -> Iterator[SparkSession]:
    """Yield a session for one job, whose caller checks the executors. A running session is used
    and left running.

    Args: as of `session`.

    Raises: ExtraNeeded: as `session`. PipelineFailed: replaces an error of Spark, without its stack
        trace.
    """
    running = _is_running() or _is_connected()
    with _plain_errors(), py4j_silenced():
        spark = session(app, master, settings=settings, check=False)
        try:
            yield spark
        finally:
            if not running:
                # What interrupts a whole group of processes ends Java too: there is none to ask.
                is_interrupted = isinstance(sys.exception(), KeyboardInterrupt)
                with contextlib.suppress(Exception) if is_interrupted else contextlib.nullcontext():
                    spark.stop()


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # those of Spark and of the bridge have no other parent in common
        if is_java_lost(error):
            raise PipelineFailed(JAVA_ENDED) from None
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise PipelineFailed(error_summary(error)) from None


def _is_running() -> bool:
    """Return whether this process has a Spark context.

    An active session is per thread, so it would tell less.
    """
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _is_connected() -> bool:
    """Return whether this process has a session of Spark Connect."""
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is None:
        return False
    sessions = module.SparkSession
    return sessions.getActiveSession() is not None or sessions._get_default_session() is not None


def _settings(master: str | None, given: Mapping[str, object], quiet: bool) -> dict[str, str]:
    settings = dict(CALM)
    if not quiet:
        del settings["spark.log.level"]
    if master is not None and master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {name: _text(value) for name, value in given.items()}
    if quiet:
        java_options = (
            f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()} {settings.get('spark.driver.extraJavaOptions', '')}"
        )
        settings["spark.driver.extraJavaOptions"] = java_options.strip()
    return settings


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
