"""The consequences of the members' subscriptions: group epoch, resolved patterns, target
assignment.

The matching of patterns runs in slices beside other requests; its result is a step of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kqueue.base import events
from kqueue.base.errors import GroupMaxSizeReached, KqueueError
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.consumer.group import TOPIC_BYTES, ConsumerGroup
from kqueue.groups.consumer.patterns import compile_pattern, matching_topics
from kqueue.groups.consumer.records import ResolvedRegex
from kqueue.groups.consumer.target_assignment import compute_target, within_time, work_size
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.target_assignment import TargetAssignment, TargetAssignments
from kqueue.groups.modern.topics import metadata_hash

logger = logging.getLogger("kqueue.groups")
ASSIGNMENT_MS_MAX = 30_000
"""Time within which an assignor must end."""
PATTERN_REFRESH_MS_MIN = 10_000
"""Time between two resolutions of known patterns, as topics come. Source: Kafka."""
PATTERN_REFRESH_MS_MAX = 600_000
"""After so long patterns are resolved again, as members may know of other topics. Source: Kafka."""


class Subscriptions:
    """The subscriptions of all consumer groups. On the owner thread."""

    def __init__(self, environment: Environment, see_topics: Callable[[Changes, ConsumerGroup], None]) -> None:
        """Take the parts. `see_topics`: notes that the hash of the topics is the present one."""
        self._config = environment.config
        self._clock = environment.clock
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._topics = environment.topics
        self._slices = SliceQueue(environment.timers, environment.clock)
        self._see_topics = see_topics
        self._assignments: TargetAssignments[ConsumerGroup] = TargetAssignments(
            environment,
            environment.config.consumer.assignment_interval,
            self._compute,
            lambda group: work_size(group, self._topics),
        )

    def refresh(self, changes: Changes, group: ConsumerGroup, *, changed: bool) -> None:
        """Look whether the group needs another epoch, another target, or its patterns again.

        Args:
            changed: a member subscribes to other topics than before.
        """
        if changed or group.topics_version != self._topics.version:
            self._update_epoch(changes, group, changed=changed)
        if group.patterns:
            self._resolve_if_due(group)
        self._assignments.assign_if_due(changes, group)

    def bump_epoch(self, changes: Changes, group: ConsumerGroup) -> None:
        """Begin a new epoch."""
        self._update_epoch(changes, group, changed=True)

    def _update_epoch(self, changes: Changes, group: ConsumerGroup, *, changed: bool) -> None:
        self._see_topics(changes, group)
        topics_hash = metadata_hash(group.subscribed_topics(), self._topics)
        if changed or topics_hash != group.metadata_hash:
            group.raise_epoch(changes, topics_hash)

    def _compute(self, group: ConsumerGroup) -> SlicedWork[TargetAssignment[bytes]]:
        work = compute_target(group, self._topics, group.preferred_assignor(self._config.assignors))
        return within_time(work, self._clock, ASSIGNMENT_MS_MAX)

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
            resolved: dict[str, frozenset[str]] = {}
            patterns = list(group.patterns)
            group.topic_filters = {pattern: group.topic_filters[pattern] for pattern in patterns}
            for pattern in patterns:
                visible = group.topic_filters[pattern]
                resolved[pattern] = yield from matching_topics(pattern, names, visible)
            apply = partial(self._apply_patterns, group=group, resolved=resolved, version=version)
            self._queue.submit_late(group.group_id, apply)
        except KqueueError as error:
            events.GROUP_PATTERN_FAILED.log(
                logger, "group %r: its patterns can't be matched: %s", group=group.group_id, error=error
            )
        finally:
            group.is_resolving = False

    def _apply_patterns(
        self, changes: Changes, group: ConsumerGroup, resolved: Mapping[str, frozenset[str]], version: int
    ) -> None:
        if self._groups.get(group.group_id) is not group:
            return
        now_ms = self._clock.wall_ms()
        group.regexes_version, group.regexes_ms = version, self._clock.monotonic_ms()
        before = group.subscribed_topics()
        for pattern, topics in resolved.items():
            former = group.regexes.get(pattern)
            if not group.count_pattern(pattern) or (former is not None and former.topics == topics):
                continue
            grown = TOPIC_BYTES * (len(topics) - (0 if former is None else len(former.topics)))
            self._limits.check_member(group.group_id, group.member_bytes, 0, grown)
            group.put_regex(changes, pattern, ResolvedRegex(topics, version, now_ms))
        if group.subscribed_topics() != before:
            self.bump_epoch(changes, group)
