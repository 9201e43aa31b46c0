"""What jobs that take long have in common: how they tell how far they are, and how they wait."""

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
    """Is told what goes on, how many rows are done, and of how many, where that is known. Called
    from any thread.
    """

    def __call__(self, stage: str, rows: int, total: int | None = None, /) -> None: ...


def silent(stage: str, rows: int, total: int | None = None, /) -> None:
    """Tells nobody."""


@contextlib.contextmanager
def watched(
    spark: SparkSession, stage: str, before: int, rows: int, total: int, tell: ProgressListener
) -> Iterator[None]:
    """While Spark reads, tell now and then how far it is: by the tasks that are done, since it
    counts no rows of Python's.

    Args: before: rows that were done before; rows: those that are being read now; total: of all.
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
    tracker = spark.sparkContext.statusTracker()
    first: int | None = None  # the stage that reads; those after it take what it has read
    while not over.wait(LOOK_S):
        try:
            active = tracker.getActiveStageIds()
            first = min(active, default=None) if first is None else first
            info = None if first is None else tracker.getStageInfo(first)
        except Exception:  # Spark is being stopped
            return
        if info is not None and info.numTasks:
            tell_share(info.numCompletedTasks / info.numTasks)


def await_end(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself, in turns: Ctrl-C is heard in between. Raises: what made
    it fail.
    """
    while not query.awaitTermination(TURN_S):
        pass
