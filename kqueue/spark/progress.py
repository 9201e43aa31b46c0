"""Measures the lag of streaming queries, in records, bytes and seconds.

Spark's progress reports have metrics of each source, but a source in Python can't set any. So a
listener measures:

    lag = LagListener(reading)  # the options of the queries' source
    spark.streams.addListener(lag)
    ...
    lag.latest[query.id].seconds
    print(lag)  # a line for each query

It measures after each batch, and during long ones, in a thread of its own with connections of its
own. Queries never wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from kqueue.spark.source.lag import QueryLag, TopicLag
from kqueue.spark.source.lag_watch import LagWatch

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["LagListener", "QueryLag", "TopicLag"]

EVERY_S = 10.0
REFRESH_TIMEOUT_S = 10.0


class LagListener(StreamingQueryListener):
    """Measures how far the queries of a session are behind.

    Args:
        sources: the options of sources, as the queries have them. A query counts where one of its
            sources reads the same topics (with the same topic ids) as one of these. One listener
            serves all queries, of several clusters too.
        every_s: how often a query is measured between the ends of its batches.
        tell: called with each measurement, in the thread that measures. It must not raise.
    Raises: OptionError: wrong options.
    A measurement that fails leaves the one before it, whose `taken_ms` tells its age; the reason is
    logged once, until one succeeds again.
    """

    def __init__(
        self,
        *sources: Mapping[str, object],
        every_s: float = EVERY_S,
        tell: Callable[[QueryLag], None] | None = None,
    ) -> None:
        self._watch = LagWatch(sources, every_s, tell)

    @property
    def latest(self) -> dict[str, QueryLag]:
        """The last measurement of each query by its id; of queries that have ended, of 100."""
        return dict(self._watch.latest)

    def __str__(self) -> str:
        """Return a line for each running query."""
        return "\n".join(str(one) for one in self.latest.values() if one.running)

    def refresh(self, timeout_s: float = REFRESH_TIMEOUT_S) -> bool:
        """Measure all queries now. Returns: False: it was not done in time."""
        return self._watch.refresh(timeout_s)

    def close(self) -> None:
        """End the measuring; call `spark.streams.removeListener` before."""
        self._watch.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Called by Spark; the start of the query waits for it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Called by Spark after a batch."""
        progress = event.progress
        ends = [one.endOffset for one in progress.sources]
        self._watch.note(str(progress.id), progress.name, progress.batchId, ends)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Called by Spark while there is nothing to read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Called by Spark at the end of a query."""
        self._watch.end(str(event.id))
