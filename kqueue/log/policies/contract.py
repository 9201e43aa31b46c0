"""The contract of cleanup policies: which part of a log is deleted or compacted.

Plugins provide theirs under the entry-point group `kqueue.cleanup_policies`: an instance, which
`kqueue.testing.check_cleanup_policy` tests. A topic's `cleanup.policy` names it.

The broker limits what a policy can do: it deletes and rewrites whole sealed segments below the high
watermark only, never lowers the log start, and leaves a log alone whose policy raises. A policy
runs on the broker's own thread: it must be quick, and use no files or sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kqueue.base.settings import TopicConfig
from kqueue.log.views import LogView
from kqueue.records.batch import Record

if TYPE_CHECKING:
    from kqueue.log.sealed_segments import SealedSegments

RecordFilter = Callable[[Record], bool]
"""Whether a record stays. Runs in another process: it can be pickled, and knows only what it
carries.
"""


class CommittedOffsets(Protocol):
    """Offsets that consumer groups have committed."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that the group would continue at, as it is on disk; None: it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete the segments that end at or before `before_offset`.

    why: for the log line, e.g. ``older than retention.ms``.

    roll_active: if `before_offset` reaches the log end, roll, so that the active segment can go
    too.

    before_delete: work to finish before the segments are deleted, such as archiving them. It is
    called with a `kqueue.log.sealed_segments.SealedSegments` (`kqueue.testing.sealed_segments`
    makes some for tests). None: no such work.

    - It must be picklable (a function, or an instance of a class, at the top of a module). It runs
    in a
      process of its own at low priority, without a time limit; in a thread where the files are in
      the broker's memory. It knows of the broker only what it carries.
    - If it raises, or its process dies, nothing is deleted. The failure is logged once, and the
    work is
      repeated at the next `log.retention.check.interval.ms`. A stop of the broker ends it at any
      point.
    - So it must be repeatable: after an end or a crash at any moment, that of the deletion
    included, it
      is called with the same records again, perhaps in segments with other borders, and without
      records that were compacted or deleted meanwhile.
    - It gets less than `before_offset` asks for if that is more than a GiB (or one segment), or if
    an
      open transaction begins below; the rest follows. One such work runs per partition at a time,
      and `kqueue.cleanup.work.max` of them in a broker.
    - While it runs, its log is not compacted. Other policies of the topic, DeleteRecords and the
      deletion of the topic do not wait for it.
    """

    before_offset: int
    why: str
    roll_active: bool = False
    before_delete: Callable[[SealedSegments], object] | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Rewrite the sealed segments without records that need not stay.

    keep: decides per record; None: the latest record of each key stays. upto_offset: segments that
    end above it are left alone; None: all sealed ones are compacted.
    """

    keep: RecordFilter | None = None
    upto_offset: int | None = None
    why: str = ""


Cleanup = Drop | Compact


class CleanupPolicy(Protocol):
    """A policy without state: one instance serves all logs."""

    @property
    def name(self) -> str:
        """The name in `cleanup.policy`, in lower case."""
        ...

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
        """Return what to do with the log now; None: nothing.

        Called every `log.retention.check.interval.ms` for deletion and every
        `log.cleaner.backoff.ms` for compaction; a plan of the other kind is ignored. Of several
        policies, the drop that reaches furthest holds. Where nothing is dirty, a compaction runs
        once per `log.retention.check.interval.ms` at most.

        Args: config: the topic's settings by name. now_ms: wall clock, which may go back.
        """
        ...
