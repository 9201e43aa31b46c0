"""What follows from the members' subscriptions: group epoch, resolved patterns, target assignment.

Small groups are assigned within the heartbeat, as in Kafka. A large assignment, and the matching of
patterns, runs in slices beside other requests; its result is a step of its own.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from kqueue.base.errors import CoordinatorLoadInProgress, GroupMaxSizeReached, KqueueError, NotCoordinator
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork, run_slice
from kqueue.groups.consumer.group import TOPIC_BYTES, ConsumerGroup
from kqueue.groups.consumer.patterns import compile_pattern, matching_topics
from kqueue.groups.consumer.target_assignment import AssignmentFailed, TargetAssignment, compute_target, work_size
from kqueue.groups.log.consumer_records import ResolvedRegex
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.topics import metadata_hash

logger = logging.getLogger("kqueue.groups")
INLINE_MS = 5
"""What a small group's assignment takes within a heartbeat at most; an assignor that takes longer
goes on beside the other requests.
"""
ASSIGNMENT_MS_MAX = 30_000
"""Time within which an assignor must end."""
RETRY_MS = 60_000
"""Time after which a failed assignment of the same group epoch is tried again."""
INLINE_SIZE_MAX = 500
"""Members and partitions of a group that is assigned within a heartbeat: about a millisecond."""
PART_MEMBERS = 500
"""Members of whom one step sets the target: about 3 ms."""
PATTERN_REFRESH_MS_MIN = 10_000
"""Time between two resolutions of known patterns, as topics come. Source: Kafka."""
PATTERN_REFRESH_MS_MAX = 600_000
"""After so long patterns are resolved again, as members may know of other topics. Source: Kafka."""


class Subscriptions:
    """The subscriptions of all consumer groups. On the owner thread."""

    def __init__(self, environment: Environment) -> None:
        self._config = environment.config
        self._clock = environment.clock
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._topics = environment.topics
        self._settings = environment.settings
        self._slices = SliceQueue(environment.timers, environment.clock)

    def refresh(self, changes: Changes, group: ConsumerGroup, *, changed: bool) -> None:
        """Look whether the group needs another epoch, another target, or its patterns again.

        Args:
            changed: a member subscribes to other topics than before.
        """
        if changed or group.topics_version != self._topics.version:
            self._update_epoch(changes, group, changed=changed)
        if group.patterns:
            self._resolve_if_due(group)
        self._assign_if_due(changes, group)

    def bump_epoch(self, changes: Changes, group: ConsumerGroup) -> None:
        """Begin a new epoch."""
        self._update_epoch(changes, group, changed=True)

    def _update_epoch(self, changes: Changes, group: ConsumerGroup, *, changed: bool) -> None:
        version = group.topics_version
        group.topics_version = self._topics.version
        changes.add_unlogged(lambda: setattr(group, "topics_version", version))
        topics_hash = metadata_hash(group.subscribed_topics(), self._topics)
        if changed or topics_hash != group.metadata_hash:
            group.set_epoch(changes, group.epoch + 1, topics_hash)

    # --- target assignment

    def _assign_if_due(self, changes: Changes, group: ConsumerGroup) -> None:
        if group.epoch <= group.target_epoch or group.is_assigning:
            return
        interval_ms = self._config.consumer.assignment_interval.of(self._settings(group.group_id))
        if 0 <= self._clock.wall_ms() - group.target_ms < interval_ms:
            return
        failed_epoch, failed_ms = group.failed_assignment
        epoch = group.epoch
        if epoch == failed_epoch and self._clock.monotonic_ms() < failed_ms + RETRY_MS:
            return
        work = compute_target(group, self._topics, group.preferred_assignor(self._config.assignors))
        if work_size(group, self._topics) <= INLINE_SIZE_MAX:
            try:
                run_slice(work, self._clock, INLINE_MS)
            except StopIteration as end:
                self._apply_target(changes, group, end.value)
                return
            except KqueueError as error:
                self._note_failure(group, epoch, error)
                return
        group.is_assigning = True
        self._slices.add(self._assign(group, work))

    def _assign(self, group: ConsumerGroup, work: SlicedWork[TargetAssignment]) -> SlicedWork[None]:
        """Compute a large assignment and apply it in parts; the epoch comes last."""
        epoch = group.epoch
        try:
            target = yield from self._within_time(work)
            changed = list(target.changed.items())
            parts: list[Promise[None]] = []
            for start in range(0, len(changed), PART_MEMBERS):
                part = TargetAssignment(target.epoch, dict(changed[start : start + PART_MEMBERS]))
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

    def _finish(self, changes: Changes, group: ConsumerGroup, epoch: int, parts: Sequence[Promise[None]]) -> None:
        """Begin the epoch, unless a part could not be written: then all is computed again."""
        group.is_assigning = False
        is_whole = all(part.error is None for part in parts)
        if is_whole and self._groups.get(group.group_id) is group and epoch > group.target_epoch:
            group.set_target_epoch(changes, epoch, self._clock.wall_ms())

    def _within_time(self, work: SlicedWork[TargetAssignment]) -> SlicedWork[TargetAssignment]:
        """Return the result of `work`. Raises AssignmentFailed: it takes too long."""
        end_ms = self._clock.monotonic_ms() + ASSIGNMENT_MS_MAX
        while True:
            try:
                next(work)
            except StopIteration as end:
                target: TargetAssignment = end.value
                return target
            if self._clock.monotonic_ms() >= end_ms:
                with contextlib.suppress(Exception):  # a plugin may object
                    work.close()
                raise AssignmentFailed(f"the assignor did not end within {ASSIGNMENT_MS_MAX // 1000} s")
            yield None

    def _note_failure(self, group: ConsumerGroup, epoch: int, error: KqueueError) -> None:
        """Log why a group keeps its former target; once a minute at most for each group."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= group.failed_assignment[1] + RETRY_MS:
            logger.error("group %r keeps its former assignment: %s", group.group_id, error)
            group.failed_assignment = epoch, now_ms
        else:
            group.failed_assignment = epoch, group.failed_assignment[1]

    def _apply_target(self, changes: Changes, group: ConsumerGroup, target: TargetAssignment) -> None:
        self._put_targets(changes, group, target)
        group.set_target_epoch(changes, target.epoch, self._clock.wall_ms())

    def _put_targets(self, changes: Changes, group: ConsumerGroup, target: TargetAssignment) -> None:
        if self._groups.get(group.group_id) is not group or target.epoch <= group.target_epoch:
            return
        for member_id, (assignment, record) in target.changed.items():
            if member_id in group.members:
                group.put_target(changes, member_id, assignment, record)

    # --- patterns

    def check_pattern(self, group: ConsumerGroup, former: str, pattern: str) -> None:
        """Check a member's new pattern. Raises: InvalidRegularExpression, GroupMaxSizeReached."""
        if not pattern or pattern == former or group.count_pattern(pattern):
            return
        if len(list(group.patterns)) >= self._config.patterns_max:
            what = f"group {group.group_id!r} has {self._config.patterns_max} topic patterns"
            raise GroupMaxSizeReached(self._limits.refused("kqueue.max.group.patterns", what))
        compile_pattern(pattern)

    def change_pattern(self, changes: Changes, group: ConsumerGroup, former: str, pattern: str) -> bool:
        """Note a member's new pattern. Returns: whether its topics change now."""
        if pattern == former:
            return False
        changed = former in group.regexes or pattern in group.regexes
        if pattern and pattern not in group.regexes:
            group.has_new_patterns = True
        if former and not group.count_pattern(former):
            group.remove_regex(changes, former)
        return changed

    def _resolve_if_due(self, group: ConsumerGroup) -> None:
        """Begin to match the patterns if one is new, or if topics came since the last time."""
        if group.is_resolving:
            return
        if any(pattern not in group.topic_filters for pattern in group.patterns):
            return  # what they may find is known when their members send heartbeats again
        age_ms = self._clock.monotonic_ms() - group.regexes_ms
        is_late = age_ms >= PATTERN_REFRESH_MS_MIN and group.regexes_version != self._topics.version
        if group.has_new_patterns or is_late or age_ms >= PATTERN_REFRESH_MS_MAX:
            group.is_resolving, group.has_new_patterns = True, False
            self._slices.add(self._resolve(group))

    def _resolve(self, group: ConsumerGroup) -> SlicedWork[None]:
        try:
            version, names = self._topics.version, self._topics.names()
            found: dict[str, frozenset[str]] = {}
            patterns = list(group.patterns)
            group.topic_filters = {pattern: group.topic_filters[pattern] for pattern in patterns}
            for pattern in patterns:
                visible = group.topic_filters[pattern]
                found[pattern] = yield from matching_topics(pattern, names, visible)
            apply = partial(self._apply_patterns, group=group, found=found, version=version)
            self._queue.submit_late(group.group_id, apply)
        except KqueueError as error:
            logger.error("group %r: its patterns can't be matched: %s", group.group_id, error)
        finally:
            group.is_resolving = False

    def _apply_patterns(
        self, changes: Changes, group: ConsumerGroup, found: Mapping[str, frozenset[str]], version: int
    ) -> None:
        if self._groups.get(group.group_id) is not group:
            return
        now_ms = self._clock.wall_ms()
        group.regexes_version, group.regexes_ms = version, self._clock.monotonic_ms()
        before = group.subscribed_topics()
        for pattern, topics in found.items():
            former = group.regexes.get(pattern)
            if not group.count_pattern(pattern) or (former is not None and former.topics == topics):
                continue
            grown = TOPIC_BYTES * (len(topics) - (0 if former is None else len(former.topics)))
            self._limits.check_member(group.group_id, group.member_bytes, 0, grown)
            group.put_regex(changes, pattern, ResolvedRegex(topics, version, now_ms))
        if group.subscribed_topics() != before:
            self.bump_epoch(changes, group)
