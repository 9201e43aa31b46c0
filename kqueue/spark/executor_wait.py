"""Reports a cluster that gives a job no executors, or that is not there.

Spark alone waits for executors silently and without end.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kqueue.base.clock import monotonic_s
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.pythons import is_local
from kqueue.spark.reachability import connection_error
from kqueue.spark.remote import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTE_AFTER_S = 15.0
LOOK_S = 0.5
DRIVER = 1
"""Spark counts the driver among the executors."""
STANDALONE = "spark://"
MASTER_WAIT_S = 5.0
_MASTERS = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*(,\s*\d+\s*){2}\]"
    r"|spark://[^/:,]+:\d+.*|spark://\[.*\]:\d+.*|yarn|k8s://.+"
)
"""The masters that Spark accepts."""


def check_master(master: str, wait_s: float = MASTER_WAIT_S) -> None:
    """Check that Spark knows such a master, and of a standalone one that it takes connections.
    Spark would fail with a stack, and with a standalone one try for a minute before.

    Args:
        master: "": not known yet.
        wait_s: for a master that is being started again.
    Raises: PipelineFailed: it is no master, or none of ``spark://HOST:PORT,HOST:PORT`` answers.
    """
    addresses = master.removeprefix(STANDALONE).split(",")
    is_standalone = master.startswith(STANDALONE)
    has_ports = not is_standalone or all(one.rpartition(":")[2].isdecimal() for one in addresses)
    if master and not (has_ports and _MASTERS.fullmatch(master)):
        raise PipelineFailed(
            f"{master!r} is no master of Spark: expected local[2], spark://HOST:PORT, yarn, k8s://URL, or "
            "sc://HOST:PORT (Spark Connect)"
        )
    if not is_standalone:
        return
    deadline = monotonic_s() + wait_s
    while True:
        refused = []
        for address in addresses:
            error = connection_error(address)
            if error is None:
                return
            refused.append(f"{address}: {error}")
        if monotonic_s() >= deadline:
            raise PipelineFailed(
                f"no master of a Spark cluster answers at {master} ({'; '.join(refused)}): start it, or name the "
                'address that it logs, "Starting Spark master at …"'
            )
        time.sleep(LOOK_S)


class Waiting:
    """The state of a job that waits for executors: the notes it gave, and whether it has given up.

    Args:
        asked: `asked_for`.
        tell: called with a sentence when there has been no executor for `note_after_s`, and with
            another one when there are some then.
        limit_s: how long to wait; None: without end.
    """

    def __init__(
        self, asked: str, tell: Callable[[str], None], limit_s: float | None, note_after_s: float = NOTE_AFTER_S
    ) -> None:
        self.given_up: str | None = None
        self._asked = asked
        self._tell = tell
        self._limit_s = limit_s
        self._note_after_s = note_after_s
        self._since: float | None = None
        self._is_noted = False

    def look(self, waits: bool, executors: int, now_s: float) -> None:
        """Note the state of the cluster at a time. `waits`: there is work for executors."""
        if executors or not waits:
            if executors and self._is_noted:
                self._tell(f"The cluster has given {executors} executor{'s' * (executors > 1)}: the job goes on.")
            self._since, self._is_noted = None, False
            return
        self._since = now_s if self._since is None else self._since
        waited = now_s - self._since
        if self._limit_s is not None and waited >= self._limit_s:
            self.given_up = f"the cluster has given no executor for {self._limit_s:g} s: {self._asked}"
        elif waited >= self._note_after_s and not self._is_noted:
            self._is_noted = True
            self._tell(f"The cluster has given no executor for {waited:.0f} s, and the job waits: {self._asked}.")


def asked_for(master: str, settings: Any) -> str:
    """Return what a job asks of a cluster for an executor, and what to do if there is none.

    Args:
        settings: with `get(name, default)`.
    """
    cores = settings.get("spark.executor.cores", None)
    is_standalone = master.startswith(STANDALONE)
    if cores is None:
        cores = "all free cores of a worker, at least 1" if is_standalone else "1"
    memory = settings.get("spark.executor.memory", "1g")
    remedy = "end other applications, or limit them by spark.cores.max" if is_standalone else "make room there"
    return (
        f"an executor is to have {memory} of memory (spark.executor.memory) and {cores} (spark.executor.cores), and "
        f"{master} may have no machine with as much to spare: {remedy}, or ask for less, as with "
        "--conf spark.executor.memory=512m"
    )


@contextlib.contextmanager
def executors_awaited(spark: SparkSession, tell: Callable[[str], None], limit_s: float | None = None) -> Iterator[None]:
    """Say it during the block whenever Spark has work and the cluster has given no executor.
    Does nothing where executors are threads of the driver, or behind a server of Spark Connect.

    Args: as of `Waiting`.
    Raises: PipelineFailed: there was none for `limit_s`; Spark's jobs were cancelled.
    """
    if is_remote(spark) or is_local(spark.sparkContext.master):
        yield
        return
    context = spark.sparkContext
    waiting = Waiting(asked_for(context.master, context.getConf()), tell, limit_s)
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(spark, waiting, over), daemon=True)
    looking.start()
    try:
        yield
    except Exception:
        if waiting.given_up is None:
            raise
    finally:
        over.set()
        looking.join()
    if waiting.given_up is not None:
        raise PipelineFailed(waiting.given_up)


def _look(spark: SparkSession, waiting: Waiting, over: threading.Event) -> None:
    context = spark.sparkContext
    while not over.wait(LOOK_S):
        try:
            tracker: Any = context._jsc.sc().statusTracker()
            waits = len(tracker.getActiveStageIds()) > 0
            waiting.look(waits, len(tracker.getExecutorInfos()) - DRIVER, monotonic_s())
            if waiting.given_up is not None:
                context.cancelAllJobs()
                return
        except Exception:  # Spark is being stopped
            return
