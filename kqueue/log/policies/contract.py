"""What a cleanup policy is: it says which part of a log may go. Plugins bring theirs under the
entry-point group `kqueue.cleanup_policies`: an instance, which
`kqueue.testing.check_cleanup_policy` tests. A topic's `cleanup.policy` names it.

A policy can't do harm beyond its word: the broker drops and rewrites whole sealed segments below
the high watermark alone, never moves the log start back, and leaves a log alone whose policy
raises. It runs on the broker's own thread: it must be quick, and keep its hands off files and
sockets.
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
    """How far consumer groups are."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """The offset that the group would go on at, as it is on disk; None: it has none there (any
        more).
        """
        ...


@dataclass(frozen=True, slots=True)
class Drop:
    """Let go of the segments that end at or before `before_offset`. `why`: for the log line, e.g.
    ``older than retention.ms``.

    roll_active: where `before_offset` reaches the end of the log, begin a new segment, so that the
    active one can go too.

    before_delete: work to be done before they go, such as keeping them somewhere else; they go
    only once it has returned. It is given them as `kqueue.log.sealed_segments.SealedSegments`, to
    read (`kqueue.testing.sealed_segments` makes some for tests). None: there is none.

    - It can be pickled (an instance of a class, or a function, at the top of a module) and runs in
    a process of its own, at low priority,
      for as long as it takes; in a thread where the files are in the broker's memory. It knows of
      the broker only what it carries.
    - If it raises, or its process dies, all stays as it is; that is told once in the log, and it
    is tried again at the next
      `log.retention.check.interval.ms`. A broker that stops ends it, at any point.
    - So it has to be repeatable: after an end or a crash at any moment, that of the deletion
    included, it is given the same records again,
      perhaps in segments with other borders, and with records gone that were compacted or deleted
      meanwhile.
    - It is given less than `before_offset` asks for where that is much (a GiB, or one segment), or
    where an open transaction begins below;
      the rest follows. One such work runs per partition at a time, and `kqueue.cleanup.work.max`
      of them in a broker.
    - While it runs, its log is not compacted. Other policies of the topic, DeleteRecords and the
    end of the topic don't wait for it.
    """

    before_offset: int
    why: str
    roll_active: bool = False
    before_delete: Callable[[SealedSegments], object] | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Rewrite the sealed segments without the records that needn't stay.

    keep: which do; None: the last one of each key does. upto_offset: leave the segments that end
    above it alone; None: all sealed ones.
    """

    keep: RecordFilter | None = None
    upto_offset: int | None = None
    why: str = ""


Cleanup = Drop | Compact


class CleanupPolicy(Protocol):
    """Without state: one instance serves all logs."""

    @property
    def name(self) -> str:
        """As it stands in `cleanup.policy`, in small letters."""
        ...

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
        """What is to be done to the log now; None: nothing.

        Asked often: every `log.retention.check.interval.ms` for drops, every
        `log.cleaner.backoff.ms` for compaction; whichever kind it is not asked for is passed over.
        Where several policies are named, the drop that reaches furthest holds. A compaction where
        nothing is dirty is done every `log.retention.check.interval.ms` at most. Args: config: the
        topic's settings by name. now_ms: wall clock, which may be set back.
        """
        ...
