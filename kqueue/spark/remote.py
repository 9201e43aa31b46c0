"""Sessions of Spark Connect: the client speaks to a server, and has no Java of its own.

The server looks formats up and runs them, so its Python needs kqueue. A session of Connect has no
Java, context or other sessions beside it that code here could use.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.errors import OptionError, PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
VARIABLE = "SPARK_REMOTE"
"""Spark's environment variable that names a server."""
PORT = 15002
OF_SESSIONS = "spark.sql."
"""Prefix of the settings that each session has for itself; others are the server's."""
ANSWER_TIMEOUT_S = 10.0


def is_remote(spark: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def server_url(master: str | None) -> str | None:
    """Return the server that is asked for, as `master` or by SPARK_REMOTE; None: no server."""
    url = os.environ.get(VARIABLE) if master is None else master
    return url if url is not None and url.startswith(SCHEME) else None


@contextlib.contextmanager
def no_server(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Have a Spark that is started in the block be none of a server that SPARK_REMOTE names."""
    named = environ.get(VARIABLE, "")
    if not named.startswith(SCHEME):
        yield
        return
    del environ[VARIABLE]
    try:
        yield
    finally:
        environ[VARIABLE] = named


def connect(sql: Any, app: str, url: str, ours: Mapping[str, str], given: Mapping[str, str]) -> SparkSession:
    """Return a session on a server.

    Args:
        sql: the module `pyspark.sql`.
        ours: settings; those that a session can't have for itself are left out.
        given: settings of the user.
    Raises: OptionError: one of `given` is the server's. ExtraNeeded: a package of Spark Connect is
        missing. PipelineFailed: no server answers at the address.
    """
    for name in given:
        if not name.startswith(OF_SESSIONS):
            raise OptionError(
                f"{name} can't be set through Spark Connect: it is a setting of the server, which it is given when it "
                "starts (start-connect-server.sh --conf, --archives, --packages)"
            )
    _check_answer(url)
    builder = sql.SparkSession.builder.appName(app).remote(url)
    for name, value in {**ours, **given}.items():
        if name.startswith(OF_SESSIONS):
            builder = builder.config(name, value)
    try:
        made: SparkSession = builder.getOrCreate()
    except ImportError as error:
        raise ExtraNeeded(f"Spark Connect needs more packages ({error}): {install_hint('spark-connect')}") from None
    return made


def _check_answer(url: str) -> None:
    """Raise PipelineFailed unless something listens: Spark's client would try for ten minutes."""
    host, port = _address(url)
    try:
        socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S).close()
    except OSError as error:
        raise PipelineFailed(
            f"no Spark Connect server answers at {host}:{port} ({error.strerror or error}): start one with "
            "start-connect-server.sh, or name another"
        ) from None


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise OptionError(f"{url!r} is no address of a Spark Connect server: expected sc://HOST:PORT")
    return host, port or PORT


def refuse_remote(spark: SparkSession, what: str) -> None:
    """Raise PipelineFailed if `what` would need the Java that a session of Spark Connect has not.

    Args: what: a subject in the singular.
    """
    if is_remote(spark):
        raise PipelineFailed(
            f"{what} can't be used through Spark Connect, which gives no access to Spark's Java: run it on a machine "
            "that reaches Spark's master, with that (--master spark://HOST:7077, local[*])"
        )
