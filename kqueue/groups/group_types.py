"""The types of groups: what the coordinator asks of each, whatever its protocol.

    type       records (key types)       assignor                    manager
    classic    2                         the leader among members    `classic.manager`
    consumer   3 to 8, 16                `assignors`, by name        `consumer.manager`
    share      10 to 15                  `share.simple_assignor`     `share.manager`
    streams    17 to 23                  `streams.task_assignor`     `streams.manager`

A group says its type (`Group.type`); `Managers` has the manager of each. So nothing here asks a
group for its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kqueue.base.errors import RequestRefused
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import JoinRequest, JoinResult, LeavingMember
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.group import Committer, Group, GroupType
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.share.group import ShareGroup
from kqueue.groups.streams.group import StreamsGroup

G = TypeVar("G", bound=Group, contravariant=True)

MODERN_TYPES: tuple[type[ModernGroup[Any, Any]], ...] = (ConsumerGroup, ShareGroup, StreamsGroup)
"""In the order in which a partition of the log is restored."""
TYPE_OF_RECORD = {number: kind for kind in MODERN_TYPES for number in kind.records.numbers()}
"""By the type in the key of a record: the groups that have it."""


class GroupManager(Protocol[G]):
    """The groups of one type."""

    def resume(self, group: G) -> None:
        """Start the timers of a group that was read from the log."""
        ...

    def activate(self, group: G) -> None:
        """Go on with the work of a resumed group whose partition is active now."""
        ...

    def stop(self, group: G) -> None:
        """Answer the members that wait, stop all timers, and release what the limits count. The log
        is not touched.
        """
        ...

    def deleted(self, group: G) -> None:
        """End what outlasts a group that was deleted from the log."""
        ...

    def join(self, group: G, request: JoinRequest, *, id_required: bool, can_skip: bool) -> Promise[JoinResult] | None:
        """Answer a JoinGroup; see `GroupCoordinator.join`. Returns None: a classic group may come
        in the place of this one.
        """
        ...

    def leave(self, group: G, leaving: Sequence[LeavingMember]) -> Promise[list[RequestRefused | None]]:
        """Answer a LeaveGroup; see `GroupCoordinator.leave`."""
        ...

    def check_commit(self, group: G, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Check that a member may commit offsets; see `GroupCoordinator.commit`."""
        ...


Managers = Mapping[GroupType, GroupManager[Any]]
