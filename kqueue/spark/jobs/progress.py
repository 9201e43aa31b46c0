"""Progress reports and waiting, shared by long jobs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

TURN_S = 1
LOOK_S = 0.5


Tell = Callable[[str, int], None]


class ProgressListener(Protocol):
    """Called with a stage, the rows done, and the total if known; from any thread."""

    def __call__(self, stage: str, rows: int, total: int | None = None, /) -> None: ...


def silent(stage: str, rows: int, total: int | None = None, /) -> None:
    """Ignore progress."""


@contextlib.contextmanager
def watched(
    spark: SparkSession, stage: str, before: int, rows: int, total: int, tell: ProgressListener
) -> Iterator[None]:
    """Report progress while Spark reads.

    It is estimated from finished tasks, since Spark does not count rows of Python readers.

    Args:
        before: rows done before. rows: rows of this read. total: rows in all.
    """
    tell(stage, before, total)
    if tell is silent:
        yield
        return
    over = threading.Event()
    looking = threading.Thread(
        target=_look, args=(spark, over, lambda share: tell(stage, before + int(rows * share), total)), daemon=True
    )
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    tell(stage, before + rows, total)


def _look(spark: SparkSession, over: threading.Event, tell_share: Callable[[float], None]) -> None:
    first: int | None = None  # the stage that reads; those after it take what it has read
    while not over.wait(LOOK_S):
        try:
            tracker = spark.sparkContext.statusTracker()
            active = tracker.getActiveStageIds()
            first = min(active, default=None) if first is None else first
            info = None if first is None else tracker.getStageInfo(first)
        except Exception:  # Spark is being stopped
            return
        if info is not None and info.numTasks:
            tell_share(info.numCompletedTasks / info.numTasks)


def await_end(query: StreamingQuery) -> None:
    """Wait for a query to end, in intervals, so Ctrl-C works. Raises: the query's error."""
    while not query.awaitTermination(TURN_S):
        pass
