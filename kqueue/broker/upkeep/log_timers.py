"""Timers of all logs: checkpoints, indexes, producers, locks, space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kqueue.base.config import Config
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.topics.topics import Topics
from kqueue.log.manager import LogManager

FLUSH_INTERVAL = "log.flush.offset.checkpoint.interval.ms"
HIGH_WATERMARK_INTERVAL = "replica.high.watermark.checkpoint.interval.ms"
PRODUCERS_INTERVAL = "producer.id.expiration.check.interval.ms"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"


class LogTimers:
    """The timers of all logs of one broker. Thread: owner thread."""

    def __init__(self, config: Config, topics: Topics, logs: LogManager, scheduler: Scheduler) -> None:
        self._config = config
        self._topics = topics
        self._logs = logs
        self._timers = scheduler.timers
        self._slices = scheduler.slices
        config.observe([PRODUCER_EXPIRATION], self._set_producer_expiration)

    def start(self) -> None:
        """Start the timers."""
        logs = self._logs
        self._every(FLUSH_INTERVAL, logs.checkpoints.write_all)
        self._every(FLUSH_INTERVAL, logs.rebuild_indexes)
        self._every(PRODUCERS_INTERVAL, logs.expire_producers)
        self._every(HIGH_WATERMARK_INTERVAL, self._checkpoint_high_watermarks)
        self._timers.every(self._config[HIGH_WATERMARK_INTERVAL], logs.check_locks)
        self._timers.every(self._config[HIGH_WATERMARK_INTERVAL], logs.check_space)

    def _every(self, setting: str, steps: Callable[[], SlicedWork[Any]]) -> None:
        """Run upkeep of all logs in slices at an interval; skip it while the last run is
        unfinished.
        """
        name = f"{setting} {steps.__name__}"
        self._timers.every(self._config[setting], lambda: self._slices.add_once(name, steps()))

    def _set_producer_expiration(self) -> None:
        self._logs.producer_expiration_ms = self._config[PRODUCER_EXPIRATION]

    def _checkpoint_high_watermarks(self) -> SlicedWork[None]:
        yield from self.note_high_watermarks()
        self._logs.checkpoints.save_high_watermarks()

    def note_high_watermarks(self) -> SlicedWork[None]:
        """Note the high watermarks of all open logs for the next checkpoint."""
        for topic in self._topics:
            for partition in topic.partitions:
                if partition.is_open:
                    self._logs.checkpoints.note_high_watermark(topic.name, partition.index, partition.high_watermark)
                    yield None
