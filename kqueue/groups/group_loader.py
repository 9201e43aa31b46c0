"""Restores the groups and offsets of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from kqueue.base.errors import MalformedMessage
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.classic.membership_manager import MembershipManager
from kqueue.groups.group import Group
from kqueue.groups.group_types import MODERN_TYPES, TYPE_OF_RECORD
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log import records
from kqueue.groups.log.group_log import LogEntry
from kqueue.groups.log.log_replay import ReplayedPartition, replay
from kqueue.groups.log.modern_records import ModernKey
from kqueue.groups.log.schemas import GroupMetadataKey, OffsetCommitKey
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.offsets.offset_manager import OffsetManager


class GroupLoader:
    """Puts groups into the coordinator's table. On the owner thread.

    `ensure_group(group_id)` makes the group of offsets that have none.
    """

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        membership: MembershipManager,
        offsets: OffsetManager,
        limits: GroupLimits,
        ensure_group: Callable[[str], None],
    ) -> None:
        self._groups = groups
        self._membership = membership
        self._offsets = offsets
        self._limits = limits
        self._ensure_group = ensure_group
        self._unfinished: dict[int, dict[str, None]] = {}

    def load(self, partition: int, entries: Iterable[LogEntry]) -> SlicedWork[list[Group]]:
        """Replay one partition of the log, in steps. Returns its groups, without running timers.

        Raises: MalformedMessage: a record can't be read.
        """
        replayed = yield from replay(entries)
        try:
            group_ids = yield from self._restore(partition, replayed)
        except MalformedMessage as error:
            raise MalformedMessage(f"partition {partition} of the offsets topic: {error}") from None
        return [group for group_id in group_ids if (group := self._groups.get(group_id)) is not None]

    def unfinished(self, partition: int) -> Iterable[str]:
        """Return the groups that a load may have given offsets before it was broken off; forget
        them.
        """
        return self._unfinished.pop(partition, ())

    def _restore(self, partition: int, replayed: ReplayedPartition) -> SlicedWork[Iterable[str]]:
        """Apply records. Returns the ids of the groups that they name, in order."""
        group_ids: dict[str, None] = {}
        self._unfinished[partition] = group_ids
        modern: dict[type[ModernGroup[Any, Any]], dict[str, list[tuple[ModernKey, bytes]]]] = {}
        store = self._offsets.store
        for raw_key, value in replayed.latest.items():
            key = records.read_key(raw_key)
            if key is None:
                continue
            group_ids[key.group] = None
            if isinstance(key, ModernKey):
                if value is not None:
                    modern.setdefault(TYPE_OF_RECORD[key.type], {}).setdefault(key.group, []).append((key, value))
            elif isinstance(key, GroupMetadataKey):
                if value is not None:
                    self._groups[key.group] = self._membership.restore(key.group, records.read_group(value))
            elif value is None:
                store.remove(key.group, key.topic, key.partition)
            else:
                store.put(key.group, key.topic, key.partition, records.read_offset(value))
            yield None
        for kind in MODERN_TYPES:
            for group_id, group_records in modern.get(kind, {}).items():
                if group_id not in self._groups:  # else a classic group took its place
                    group = kind(group_id, self._limits)
                    self._groups[group_id] = group
                    yield from group.restore(group_records)
        yield from self._restore_pending(replayed, group_ids)
        for group_id in group_ids:
            if store.has(group_id):
                self._ensure_group(group_id)
        del self._unfinished[partition]
        return group_ids

    def _restore_pending(self, replayed: ReplayedPartition, group_ids: dict[str, None]) -> SlicedWork[None]:
        for (producer_id, raw_key, value), superseded in replayed.pending:
            key = records.read_key(raw_key)
            if not isinstance(key, OffsetCommitKey) or value is None:
                continue  # transactions commit offsets only, and delete none
            group_ids[key.group] = None
            offset_key = (key.topic, key.partition)
            self._offsets.put(key.group, offset_key, records.read_offset(value), producer_id)
            if superseded:
                self._offsets.store.pending.supersede(key.group, offset_key)
            yield None
