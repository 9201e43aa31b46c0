"""The contract of cleanup policies, which decide what part of a log is deleted or compacted.

Plugins provide an instance under the entry-point group `kqueue.cleanup_policies`; test it with
`kqueue.testing.check_cleanup_policy`. A topic's `cleanup.policy` names it.

The broker limits a policy. It deletes and rewrites only whole sealed segments below the high
watermark, never lowers the log start, and skips a log whose policy raises.

Thread: a policy runs on the broker's thread: it must be fast, and must not use files or sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kqueue.base.config import TopicConfig
from kqueue.log.views import LogView
from kqueue.records.batch import Record

if TYPE_CHECKING:
    from kqueue.log.sealed_segments import SealedSegments

RecordFilter = Callable[[Record], bool]
"""Returns whether to keep a record. Must be picklable: it runs in another process."""


class CommittedOffsets(Protocol):
    """Offsets that consumer groups have committed."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the durable committed offset of a group; None: it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete the segments that end at or before `before_offset`.

    Attributes:
        before_offset: exclusive end of the part to delete.
        why: reason for the log line, e.g. ``older than retention.ms``.
        roll_active: roll if `before_offset` reaches the log end, so that the active segment is
            deleted too.
        before_delete: work to finish before the segments are deleted, such as archiving them.
            Called with a `kqueue.log.sealed_segments.SealedSegments`
            (`kqueue.testing.sealed_segments` creates some for tests). None: no such work.
        local: delete only the local segments that the remote tier has; the log start stays. On a
            topic without a tier nothing is deleted then.

    Rules for `before_delete`:

    - It must be picklable: a function, or an instance of a class, at the top of a module. It runs
    in
      its own process at low priority, without a time limit; in a thread if the log files are in the
      broker's memory. It has no access to the broker's objects.
    - If it raises, or its process dies, nothing is deleted. The failure is logged once, and the
    work is
      repeated at the next `log.retention.check.interval.ms`. A stop of the broker ends it at any
      point.
    - It must be repeatable. After a failure or a crash at any moment, also during the deletion, it
    is
      called again with the same records. Segment borders may differ, and records that were
      compacted or deleted meanwhile are missing.
    - It receives less than `before_offset` requests if that is more than 1 GiB (or one segment), or
    if
      an open transaction begins below it; the rest follows. One call runs per partition at a time,
      and `kqueue.cleanup.work.max` calls in a broker.
    - While it runs, its log is not compacted. Other policies of the topic, DeleteRecords and the
      deletion of the topic do not wait for it.
    """

    before_offset: int
    why: str
    roll_active: bool = False
    before_delete: Callable[[SealedSegments], object] | None = None
    local: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """Rewrite the sealed segments without superseded records.

    Attributes:
        keep: decides per record; None: keeps the latest record of each key.
        upto_offset: segments that end above it are not compacted; None: all sealed ones are.
        why: reason for the log line.
    """

    keep: RecordFilter | None = None
    upto_offset: int | None = None
    why: str = ""


Cleanup = Drop | Compact


class CleanupPolicy(Protocol):
    """A cleanup policy without state: one instance serves all logs."""

    @property
    def name(self) -> str:
        """The name in `cleanup.policy`, in lower case."""
        ...

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
        """Return the cleanup to run on the log now; None: none.

        Called every `log.retention.check.interval.ms` for deletion and every
        `log.cleaner.backoff.ms` for compaction; a plan of the other kind is ignored. Of several
        policies, the drop with the highest offset applies. If nothing is dirty, a compaction runs
        at most once per `log.retention.check.interval.ms`.

        Args:
            config: the topic's settings by name.
            now_ms: wall clock, which may go back.
        """
        ...
