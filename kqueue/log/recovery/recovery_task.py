"""Recovery of several logs as a job: picklable, runs wherever the files are.

Reading batches one by one keeps a core busy, and in a thread the interpreter's lock: so a task with
much to read runs in a process (`CpuJob`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kqueue.base import events
from kqueue.base.errors import StorageFailed
from kqueue.base.log_event import ForwardedLine
from kqueue.log.config import LogConfig
from kqueue.log.folders.partition_folders import TopicPartition
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.recovery.log_loader import load_log
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
MESSAGES_MAX = 1000
"""Messages that a task in another process sends back; it drops further ones."""


@dataclass(frozen=True, slots=True)
class LogToRecover:
    """One log, and what its checkpoints say. folder: its path in the storage."""

    key: TopicPartition
    folder: str
    config: LogConfig
    checkpoint: LogCheckpoint


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """Outcomes in the order of the task's logs; messages: lines to log."""

    outcomes: list[RecoveredLog | StorageFailed]
    messages: list[ForwardedLine]


@dataclass(frozen=True)
class RecoveryTask:
    """Recovers logs one after another, as after a crash; a log that fails does not stop the others.

    Args:
        opener: returns the storage with the folders; picklable if other processes share it.
        now_ms: wall clock.
        sends_messages: return log messages instead of logging them, for another process.
    Durability: what each outcome says is flushed. A crash before costs nothing: recovery begins
        again at the next start.
    """

    opener: Callable[[], Storage]
    logs: tuple[LogToRecover, ...]
    now_ms: int
    sends_messages: bool = False

    def __call__(self) -> RecoveryResult:
        """Recover all logs."""
        messages: list[ForwardedLine] = []
        storage = self.opener()
        if not self.sends_messages:
            return RecoveryResult([self._recover(storage, log) for log in self.logs], messages)
        with _collected(messages):
            return RecoveryResult([self._recover(storage, log) for log in self.logs], messages)

    def _recover(self, storage: Storage, log: LogToRecover) -> RecoveredLog | StorageFailed:
        try:
            if not storage.exists(log.folder):
                raise StorageFailed(f"{storage.location}: the folder {log.folder} was there and is gone")
            loaded = load_log(storage, log.folder, log.config, self.now_ms, **log.checkpoint._asdict())
            return RecoveredLog.of(loaded)
        except StorageFailed as error:
            return error
        except Exception as error:  # a storage may be a plugin's; the other logs must go on
            events.INTERNAL_ERROR.log(logger, "%s: %s", location=storage.location, folder=log.folder, exc_info=True)
            return StorageFailed(f"{storage.location}: {log.folder} can't be recovered: {error!r}")


@contextmanager
def _collected(messages: list[ForwardedLine]) -> Iterator[None]:
    """Put what is logged below ``kqueue.log`` into `messages` instead."""
    handler = _Collector(messages)
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)


class _Collector(logging.Handler):
    def __init__(self, messages: list[ForwardedLine]) -> None:
        super().__init__(logging.INFO)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._messages) < MESSAGES_MAX:
            self._messages.append(ForwardedLine.of(record, self.format(record)))
