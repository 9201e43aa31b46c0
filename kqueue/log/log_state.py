"""The state of a log after a failed disk operation, until the next start.

    state       after                                             append  read   delete  flush
    online      a full disk or too many open files refused a      yes     yes    yes     yes
                write: the partial write is truncated
    read-only   another write failed, or an fsync                 no      (1)    (1)     no
    offline     a truncation or a replacement failed half-way,    no      no     no      no
                the folder was deleted or taken by another
    (1) below the flushed offset; delete: retention and DeleteRecords

A failed write or fsync may have lost appended bytes, and a second fsync would report success for
them. Bytes below the flushed offset are safe, because an earlier fsync covered them.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

from kqueue.base.errors import StorageFailed
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")


class LogState(enum.Enum):
    """What a log accepts; see the table in the module docstring."""

    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


class FailableLog:
    """A log's state machine: it leaves ONLINE once, and OFFLINE is final.

    Attributes:
        offline: why the log is read-only or offline (`state` says which); None: it is online.
        on_flushed: called when `state` changed, or after a flush (see `Log.flush_job`).
        on_offline: called when a failure ended ONLINE.
    """

    __slots__ = ("folder", "offline", "on_flushed", "on_offline", "state", "storage")

    def __init__(self, storage: Storage, folder: str) -> None:
        self.storage = storage
        self.folder = folder
        self.state = LogState.ONLINE
        self.offline: StorageFailed | None = None
        self.on_flushed: Callable[[], None] | None = None
        self.on_offline: Callable[[], None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a job cuts it, and `offline` says so until that ends."""
        return self.offline is not None and self.state is LogState.ONLINE

    def take_offline(self, error: StorageFailed) -> None:
        """Refuse every use with `error` and write nothing more; no effect if already offline.

        The files stay open until `Log.abandon`. The caller logs the reason.
        """
        if self.state is not LogState.OFFLINE:
            self._set_state(LogState.OFFLINE, error if self.is_busy else self.offline or error)

    @property
    def _safe_end(self) -> int:
        """Exclusive end of what a read-only log serves."""
        raise NotImplementedError

    def _fail(self, error: BaseException, state: LogState = LogState.READ_ONLY) -> None:
        """Leave ONLINE because of `error`, with one log line."""
        if self.offline is not None:
            return
        name = f"{self.storage.location}: {self.folder}"
        failure = error if isinstance(error, StorageFailed) else StorageFailed(f"{name}: {error!r}")
        if state is LogState.READ_ONLY:
            logger.error(
                "%s is read-only until the next start, records below offset %d are served: %s",
                name, self._safe_end, failure,
            )  # fmt: skip
        else:
            logger.error("%s is offline until the next start: %s", name, failure)
        self._set_state(state, failure)
        if self.on_offline is not None:
            self.on_offline()

    def _set_state(self, state: LogState, failure: StorageFailed) -> None:
        self.state, self.offline = state, failure
        if self.on_flushed is not None:
            self.on_flushed()
