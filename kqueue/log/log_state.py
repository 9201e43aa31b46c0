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

from kqueue.base import events
from kqueue.base.errors import StorageFailed

logger = logging.getLogger("kqueue.log")


class LogState(enum.Enum):
    """The states of a log, which say what it accepts; see the table in the module docstring."""

    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


class LogHealth:
    """State machine of one log: it leaves ONLINE once, and OFFLINE is final.

    Attributes:
        state: see the table above.
        failure: why `state` is not ONLINE, or why the log is suspended; None: appends are accepted.
    """

    __slots__ = ("_name", "failure", "state")

    def __init__(self, name: str) -> None:
        """`name` is the log's place in messages: data folder and partition folder."""
        self._name = name
        self.state = LogState.ONLINE
        self.failure: StorageFailed | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether a job truncates the log; `failure` refuses other uses until that ends."""
        return self.failure is not None and self.state is LogState.ONLINE

    def suspend(self, reason: StorageFailed) -> None:
        """Refuse every use with `reason` until `resume`."""
        self.failure = reason

    def resume(self) -> None:
        """End `suspend`; no effect on a log that has failed meanwhile."""
        if self.state is LogState.ONLINE:
            self.failure = None

    def take_offline(self, error: StorageFailed) -> bool:
        """Refuse every use for good; the caller logs why. Returns: whether `state` changed."""
        if self.state is LogState.OFFLINE:
            return False
        # an earlier failure stays the reason: it is the cause of what follows
        if self.failure is None or self.is_suspended:
            self.failure = error
        self.state = LogState.OFFLINE
        return True

    def fail(self, error: BaseException, state: LogState, served_end: int) -> bool:
        """Leave ONLINE because of `error`, with one log line. Returns: whether `state` changed.

        Args: state: READ_ONLY or OFFLINE. served_end: exclusive end of what a read-only log serves.
        """
        if self.failure is not None:
            return False
        failure = error if isinstance(error, StorageFailed) else StorageFailed(f"{self._name}: {error!r}")
        if state is LogState.READ_ONLY:
            events.LOG_READ_ONLY.log(
                logger,
                "%s is read-only until the next start, records below offset %d are served: %s",
                log=self._name,
                end_offset=served_end,
                error=failure,
            )
        else:
            events.LOG_OFFLINE.log(logger, "%s is offline until the next start: %s", log=self._name, error=failure)
        self.state, self.failure = state, failure
        return True
