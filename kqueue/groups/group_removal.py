"""Removes groups: deleted, expired, or replaced by one of another type that keeps the offsets."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import CoordinatorNotAvailable, GroupIdNotFound, KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.rebalancer import Rebalancer
from kqueue.groups.classic.state import GroupEvent
from kqueue.groups.config import GroupConfig
from kqueue.groups.errors import NonEmptyGroup
from kqueue.groups.group import Group
from kqueue.groups.group_types import Managers
from kqueue.groups.log import records
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.group_log import Done, Wake
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.modern.write_queue import WriteQueue
from kqueue.groups.offsets.offset_manager import OffsetManager


class GroupRemoval:
    """Takes groups out of the log, then out of the coordinator's table. On the owner thread."""

    def __init__(
        self,
        config: GroupConfig,
        groups: MutableMapping[str, Group],
        rebalancer: Rebalancer,
        offsets: OffsetManager,
        queue: WriteQueue,
        managers: Managers,
        clock: Clock,
        wake: Wake,
    ) -> None:
        self._groups = groups
        self._rebalancer = rebalancer
        self._offsets = offsets
        self._queue = queue
        self._managers = managers
        self._clock = clock
        self._wake = wake
        self._config = config

    def delete(self, group: Group) -> Promise[None]:
        """Delete an empty group and its offsets; see `GroupCoordinator.delete`."""
        if isinstance(group, ModernGroup):
            return self._queue.submit(group.group_id, lambda changes: self._delete_modern(changes, group))
        # Two ways to delete: a classic group is no step of the queue, its state machine orders it.
        assert isinstance(group, ClassicGroup)
        if not group.is_empty:
            raise NonEmptyGroup(f"group {group.group_id!r} has members")
        promise: Promise[None] = Promise()

        def done(error: KqueueError | None) -> None:
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(coordinator_error(error))
            self._wake(promise)

        self._delete(group, done)
        return promise

    # --- deletion

    def _delete_modern(self, changes: Changes, group: ModernGroup[Any, Any]) -> None:
        """Delete an empty modern group and its offsets.

        Raises: NonEmptyGroup, GroupIdNotFound.
        """
        group_id = group.group_id
        if self._groups.get(group_id) is not group or group.is_dead:  # deleted before, maybe in the same append
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if not group.is_empty:
            raise NonEmptyGroup(f"group {group_id!r} has members")
        group.is_dead = True
        changes.add_unlogged(lambda: setattr(group, "is_dead", False))
        keys = sorted(self._offsets.store.keys(group_id))
        for key in keys:
            changes.add(records.offset_key(group_id, *key), None, lambda: None)
        group.remove_records(changes)

        def removed() -> None:
            self._offsets.remove(group_id, keys)
            group.release()
            del self._groups[group_id]
            self._managers[group.type].deleted(group)

        changes.on_committed.append(removed)

    def _delete(self, group: ClassicGroup, then: Done) -> None:
        """Delete an empty group from the log, then from memory, then call `then`."""
        group_id = group.group_id
        empty_since_ms = group.state_since_ms
        self._rebalancer.retire(group, CoordinatorNotAvailable(f"group {group_id!r} is being removed"))
        group.transition(GroupEvent.REMOVED, self._clock.wall_ms())

        def done(error: KqueueError | None) -> None:
            if error is None:
                del self._groups[group_id]
            else:
                group.transition(GroupEvent.KEPT, self._clock.wall_ms())
                group.state_since_ms = empty_since_ms
            then(error)

        self._offsets.append_tombstones(group_id, sorted(self._offsets.store.keys(group_id)), done, with_group=True)

    # --- expiry

    def expire(self) -> SlicedWork[None]:
        """Delete expired offsets, and empty groups that have no others; one step per group."""
        now_ms = self._clock.wall_ms()
        store = self._offsets.store
        for group in list(self._groups.values()):
            yield None
            if self._groups.get(group.group_id) is not group or not self._queue.is_served(group.group_id):
                continue  # deleted since the list was made, or loaded in part
            expired = store.expired(group, now_ms, self._config.retention_ms)
            if group.can_expire and expired == store.keys(group.group_id):
                self.delete(group)
            elif expired:
                self._offsets.append_tombstones(group.group_id, sorted(expired))
