"""Adds new classic groups, also in the place of an empty group of another type.

Crash: tombstones of the former group and the first record of the new one are one append. If it
fails, the former group is back.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import KqueueError
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.rebalancer import Rebalancer
from kqueue.groups.classic.state import GroupEvent
from kqueue.groups.group import Group
from kqueue.groups.log import records
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.group_writer import GroupWriter
from kqueue.groups.log.schemas import GroupMetadataValue


class GroupRegistration:
    """Registrations in one coordinator's table of groups. On the owner thread."""

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        writer: GroupWriter,
        rebalancer: Rebalancer,
        clock: Clock,
        keep_offsets: Callable[[str], None],
    ) -> None:
        """Take the parts. `keep_offsets`: creates a group if it has offsets."""
        self._groups = groups
        self._writer = writer
        self._rebalancer = rebalancer
        self._clock = clock
        self._keep_offsets = keep_offsets

    def register(self, group: ClassicGroup) -> None:
        """Add a group and append its first record. A failed append takes that back."""
        group_id, changes = group.group_id, Changes()
        former = self._groups.get(group_id)
        if former is not None:
            former.remove_records(changes)
        group.former = former
        self._groups[group_id] = group

        def done(error: KqueueError | None) -> None:
            if error is None:
                group.former = None
                if former is not None:
                    former.release()
            elif not group.is_dead:
                self._rebalancer.retire(group, coordinator_error(error))
                group.release()
                group.transition(GroupEvent.REMOVED, self._clock.wall_ms())
                if self._groups[group_id] is not group:
                    return  # it is being converted, and the conversion takes its place
                group.put_back(self._groups)
                self._keep_offsets(group_id)

        value = records.group_value(GroupMetadataValue(current_state_timestamp=group.state_since_ms or -1))
        changes.add(records.group_key(group_id), value, lambda: None)
        self._writer.append(group_id, changes.records(), done)
