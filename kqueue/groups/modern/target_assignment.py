"""Computes and applies the target assignments of modern groups.

Small groups are assigned within the heartbeat, as in Kafka. A large assignment runs in slices
beside other requests, on a copy of the group's state; its result is steps of their own, and the
epoch comes last: after a crash between them the former epoch stands, and all is computed again.
Source: KIP-848, Kafka TargetAssignmentBuilder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base import events
from kqueue.base.errors import CoordinatorLoadInProgress, KqueueError, NotCoordinator
from kqueue.base.group_setting import BoundedGroupSetting
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork, run_slice
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.modern_records import Record
from kqueue.groups.modern.assignment import K, Wanted
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.modern.member import S

logger = logging.getLogger("kqueue.groups")
INLINE_SIZE_MAX = 500
"""Members and partitions, or tasks, of a group that is assigned within a heartbeat: about a
millisecond.
"""
INLINE_MS = 5
"""The longest time that a small group's assignment takes within a heartbeat; an assignor that takes
longer goes on beside the other requests.
"""
RETRY_MS = 60_000
"""Time after which a failed assignment of the same group epoch is tried again."""
PART_MEMBERS = 500
"""Members of whom one step sets the target: about 3 ms."""

G = TypeVar("G", bound=ModernGroup[Any, Any])


class TargetAssignment(NamedTuple, Generic[K]):
    """The result: the members whose target changes, each with its record."""

    epoch: int
    changed: Mapping[str, tuple[Wanted[K], Record]]


def changed_targets(
    group: ModernGroup[S, K],
    epoch: int,
    former: Mapping[str, Wanted[K]],
    assigned: Mapping[str, Mapping[K, Collection[int]]],
) -> SlicedWork[TargetAssignment[K]]:
    """Return what an assignment of all members changes. `former`: their targets until now."""
    changed: dict[str, tuple[Wanted[K], Record]] = {}
    for member_id, indexes_of in assigned.items():
        target = {key: frozenset(indexes) for key, indexes in indexes_of.items() if indexes}
        if target != former.get(member_id):
            changed[member_id] = target, group.target_record(member_id, target)
        yield None
    return TargetAssignment(epoch, changed)


class TargetAssignments(Generic[G]):
    """The assignments of all groups of one type. On the owner thread."""

    def __init__(
        self,
        environment: Environment,
        interval: BoundedGroupSetting,
        compute: Callable[[G], SlicedWork[TargetAssignment[Any]]],
        size_of: Callable[[G], int],
        *,
        inline_ms: float = INLINE_MS,
    ) -> None:
        """Take the parts.

        Args:
            compute: returns the target assignment of a group as it is at the first step.
            size_of: of the work, in members and partitions.
        """
        self._clock = environment.clock
        self._groups = environment.groups
        self._queue = environment.queue
        self._settings = environment.settings
        self._slices = SliceQueue(environment.timers, environment.clock)
        self._interval = interval
        self._compute = compute
        self._size_of = size_of
        self._inline_ms = inline_ms

    def assign_if_due(self, changes: Changes, group: G) -> bool:
        """Compute the target assignment of a new epoch.

        Returns: False: it waits for the end of the group's assignment interval.
        """
        if group.epoch <= group.target_epoch or group.is_assigning:
            return True
        interval_ms = self._interval.of(self._settings(group.group_id))
        # A time in the future comes from a clock that was set back since: it must not put
        # assignments off.
        if 0 <= self._clock.wall_ms() - group.target.timestamp_ms < interval_ms:
            return False
        failed_epoch, failed_ms = group.failed_assignment
        epoch = group.epoch
        # The same members and topics would make the assignor fail again, in each heartbeat of the
        # group.
        if epoch == failed_epoch and self._clock.monotonic_ms() < failed_ms + RETRY_MS:
            return True
        work = self._compute(group)
        if self._size_of(group) <= INLINE_SIZE_MAX:
            try:
                run_slice(work, self._clock, self._inline_ms)
            except StopIteration as end:
                self._put_targets(changes, group, end.value)
                group.set_target_epoch(changes, end.value.epoch, self._clock.wall_ms())
                return True
            except KqueueError as error:
                self._note_failure(group, epoch, error)
                return True
        # Heartbeats go on meanwhile, with the former target. What they change raises the epoch, and
        # the next assignment follows this one.
        group.is_assigning = True
        self._slices.add(self._assign(group, work))
        return True

    def _assign(self, group: G, work: SlicedWork[TargetAssignment[Any]]) -> SlicedWork[None]:
        """Compute a large assignment and apply it in parts; the epoch comes last."""
        epoch = group.epoch
        try:
            target = yield from work
            changed = list(target.changed.items())
            parts: list[Promise[None]] = []
            for start in range(0, len(changed), PART_MEMBERS):
                part = TargetAssignment(target.epoch, dict(changed[start : start + PART_MEMBERS]))
                # Targets of the new epoch are written before it begins: reconciliation compares
                # epochs, so no member acts on half of an assignment.
                parts.append(self._queue.submit(group.group_id, partial(self._put_targets, group=group, target=part)))
                yield None
            self._queue.submit(group.group_id, lambda changes: self._finish(changes, group, target.epoch, parts))
        except (NotCoordinator, CoordinatorLoadInProgress):  # another broker assigns
            group.is_assigning = False
        except KqueueError as error:
            self._note_failure(group, epoch, error)
            group.is_assigning = False
        except Exception:
            group.is_assigning = False
            raise

    def _finish(self, changes: Changes, group: G, epoch: int, parts: Sequence[Promise[None]]) -> None:
        """Begin the epoch, unless a part could not be written: then all is computed again."""
        group.is_assigning = False
        is_whole = all(part.error is None for part in parts)
        if is_whole and self._may_begin(group, epoch):
            group.set_target_epoch(changes, epoch, self._clock.wall_ms())

    def _may_begin(self, group: G, epoch: int) -> bool:
        """Return whether the group is still there, and its target assignment is older."""
        return epoch > group.target_epoch and self._groups.get(group.group_id) is group

    def _note_failure(self, group: G, epoch: int, error: KqueueError) -> None:
        """Log why a group keeps its former target; once a minute at most for each group."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= group.failed_assignment[1] + RETRY_MS:
            events.GROUP_ASSIGNMENT_FAILED.log(
                logger, "group %r keeps its former assignment: %s", group=group.group_id, error=error
            )
            group.failed_assignment = epoch, now_ms
        else:
            group.failed_assignment = epoch, group.failed_assignment[1]

    def _put_targets(self, changes: Changes, group: G, target: TargetAssignment[Any]) -> None:
        if not self._may_begin(group, target.epoch):
            return
        for member_id, (assignment, record) in target.changed.items():
            if member_id in group.members:
                group.put_target(changes, member_id, assignment, record)
