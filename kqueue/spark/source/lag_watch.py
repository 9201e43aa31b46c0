"""Measures how far queries are behind, in a thread of its own. No pyspark."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kqueue.base import events
from kqueue.base.clock import monotonic_s, wall_ms
from kqueue.base.errors import KqueueError
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import Offsets, from_json, ids_of
from kqueue.spark.source.lag import QueryLag, SourceLag, TopicLag
from kqueue.spark.source.record_reader import logger

LEAST_S = 0.5
"""Queries with shorter batches are not measured after each."""
ENDED_MAX = 100
REPORT = "a progress report"
SourceEnds = tuple[Offsets, Mapping[str, str]]


@dataclass(slots=True)
class _Watched:
    """A query: the end offsets of its last batch, and whether to measure."""

    name: str | None
    batch: int
    ends: list[SourceEnds]
    wanted: bool = True
    ended: bool = False
    taken_s: float = 0.0


class LagWatch:
    """Measures queries after their batches, and every `every_s` seconds between them.

    Args: as of `kqueue.spark.progress.LagListener`.
    Raises: OptionError: wrong options.
    Thread: any; `note` and `end` never wait for a measurement.
    """

    def __init__(
        self, sources: Sequence[Mapping[str, object]], every_s: float, tell: Callable[[QueryLag], None] | None = None
    ) -> None:
        self.latest: dict[str, QueryLag] = {}
        self._sources = [SourceLag(one) for one in sources]
        self._every_s = every_s
        self._tell = tell
        self._queries: dict[str, _Watched] = {}
        self._changed = threading.Condition()
        self._asked = self._answered = 0
        self._closed = self._has_failed = False
        self._thread: threading.Thread | None = None

    def note(self, query: str, name: str | None, batch: int, offsets: Sequence[str | None]) -> None:
        """Note a finished batch. `offsets`: the end offsets of each source, as JSON."""
        ends = [parsed for one in offsets if (parsed := _offsets(one)) is not None]
        if not ends:
            return
        with self._changed:
            before = self._queries.get(query)
            self._queries[query] = _Watched(name, batch, ends, taken_s=0.0 if before is None else before.taken_s)
            self._start()

    def end(self, query: str) -> None:
        """Measure a query that has ended for the last time."""
        with self._changed:
            ended = self._queries.get(query)
            if ended is not None:
                ended.ended = ended.wanted = True
                self._start()

    def refresh(self, timeout_s: float) -> bool:
        """Measure all queries now. Returns: False: it was not done in time."""
        with self._changed:
            if not self._queries:
                return True
            self._asked += 1
            asked = self._asked
            for one in self._queries.values():
                one.wanted = True
            self._start()
            return self._changed.wait_for(lambda: self._answered >= asked or self._closed, timeout_s)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _start(self) -> None:
        """Wake the thread, which is started with the first query."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._work, name="kqueue-lag", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    # --- the thread

    def _work(self) -> None:
        try:
            while self._wait():
                with self._changed:
                    asked, now = self._asked, monotonic_s()
                    due = {
                        query: one
                        for query, one in self._queries.items()
                        if one.wanted or now - one.taken_s >= self._every_s
                    }
                    for one in due.values():
                        one.wanted, one.taken_s = False, now
                for query, one in due.items():
                    self._measure(query, one)
                with self._changed:
                    for query, one in due.items():
                        if one.ended and not one.wanted and self._queries.get(query) is one:
                            del self._queries[query]
                    self._answered = asked
                    self._changed.notify_all()
        finally:
            for source in self._sources:
                source.close()

    def _wait(self) -> bool:
        """Wait until a query is to be measured. Returns: False: the watch is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or any(one.wanted for one in self._queries.values()),
                self._every_s if self._queries else None,
            )
            urgent = self._asked > self._answered or any(one.ended for one in self._queries.values())
            if not urgent:
                self._changed.wait_for(lambda: self._closed or self._asked > self._answered, LEAST_S)
            return not self._closed

    def _measure(self, query: str, one: _Watched) -> None:
        ended = one.ended
        try:
            topics = self._topics(one)
        except (KqueueError, OSError) as error:
            if not self._has_failed:
                events.SPARK_LAG_UNKNOWN.log(logger, "how far queries are behind is not known: %s", error=error)
            self._has_failed = True
            if ended and query in self.latest:
                self.latest[query] = dataclasses.replace(self.latest[query], running=False)
            return
        self._has_failed = False
        if topics:
            lag = QueryLag(query, one.name, one.batch, wall_ms(), topics, running=not ended)
            self.latest.pop(query, None)  # the newest is the last
            self.latest[query] = lag
            self._forget()
            if self._tell is not None:
                self._tell(lag)

    def _topics(self, one: _Watched) -> dict[str, TopicLag]:
        topics: dict[str, TopicLag] = {}
        for ends, ids in one.ends:
            source = next((source for source in self._sources if source.reads(ends, ids)), None)
            for topic, lag in (source.measure(ends) if source is not None else {}).items():
                topics[topic] = topics.get(topic, TopicLag()).plus(lag)
        return topics

    def _forget(self) -> None:
        ended = [query for query, one in list(self.latest.items()) if not one.running]
        for query in ended[: max(len(ended) - ENDED_MAX, 0)]:
            del self.latest[query]


def _offsets(text: str | None) -> SourceEnds | None:
    """Return offsets and topic ids of a source's JSON; None: of another source."""
    try:
        value = json.loads(text or "null")
        if not isinstance(value, dict):
            return None
        ends = from_json(value, REPORT)
        return (ends, ids_of(value, REPORT)) if ends else None
    except (ValueError, OptionError):
        return None
