"""Limits of the memory of all groups of a broker, and its current size.

Every limit is a setting with a finite default. At a limit, members still rejoin and offsets are
committed again; only growth is refused, with an error that clients do not retry, and one log line
per minute and setting.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof
from typing import Protocol

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import GroupMaxSizeReached
from kqueue.groups.config import GroupConfig
from kqueue.groups.errors import InvalidCommitOffsetSize, InvalidGroupId
from kqueue.groups.log.records import CommittedOffset

logger = logging.getLogger("kqueue.groups")
LINE_INTERVAL_MS = 60_000
GROUP_ID_LENGTH_MAX = 1000
MEMBER_ID_LENGTH_MAX = 1000
"""Of a member that chooses its id."""
MEMBER_BYTES = 500
"""A member of a modern group, its target and its timers, without texts and partitions."""
OFFSET_BYTES = 200
"""An entry in `OffsetStore` without its metadata."""
_NO_METADATA_BYTES = getsizeof("")


class MemberState(Protocol):
    """State of a member in the coordinator.

    A `JoinRequest` before the member is added, then a `ClassicGroupMember`.
    """

    @property
    def protocols(self) -> Mapping[str, bytes]:
        """Metadata of the member, by name of the assignment protocol."""
        ...

    @property
    def client_id(self) -> str:
        """Client id of the member."""
        ...

    @property
    def instance_id(self) -> str | None:
        """Instance id of a static member; None: not static."""
        ...


def member_bytes(member: MemberState) -> int:
    """Return the size of a member, in bytes."""
    names = len(member.client_id) + len(member.instance_id or "")
    return names + sum(len(name) + len(metadata) for name, metadata in member.protocols.items())


class HasMetadata(Protocol):
    """An offset, committed or to be committed."""

    @property
    def metadata(self) -> str:
        """Text that the client committed with the offset."""
        ...


def offsets_bytes(offsets: Sequence[HasMetadata]) -> int:
    """Return the size of these offsets, in bytes."""
    texts = [offset.metadata for offset in offsets if offset.metadata]
    return OFFSET_BYTES * len(offsets) + sum(map(getsizeof, texts)) - _NO_METADATA_BYTES * len(texts)


class GroupLimits:
    """The limits of one coordinator, and the current sizes. Belongs to the owner thread.

    Attributes:
        member_bytes: size of all members.
        offset_bytes: size of all offsets, committed or being written.
    """

    def __init__(self, config: GroupConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._next_line_ms: dict[str, float] = {}
        self._pending: OrderedDict[str, Callable[[], object]] = OrderedDict()
        self.member_bytes = 0
        self.offset_bytes = 0

    def check_new_group(self, group_id: str, count: int) -> None:
        """Check that a group may be added to `count` groups.

        Raises: GroupMaxSizeReached. InvalidGroupId: the id is too long.
        """
        if len(group_id) > GROUP_ID_LENGTH_MAX:
            raise InvalidGroupId(
                f"a new group's id has at most {GROUP_ID_LENGTH_MAX} characters, found {len(group_id)}"
            )
        if count >= self._config.groups_max:
            raise GroupMaxSizeReached(
                self.refused("kqueue.max.groups", f"group {group_id!r} can't be made: there are {count} groups")
            )

    def check_member(self, group_id: str, group_bytes: int, before: int, after: int) -> None:
        """Check that a member may grow from `before` to `after` bytes in a group of `group_bytes`.

        Raises: GroupMaxSizeReached.
        """
        more = after - before
        if more <= 0:
            return
        if group_bytes + more > self._config.group_bytes_max:
            what = f"group {group_id!r}: its members have {group_bytes} bytes, and {more} more are asked for"
            raise GroupMaxSizeReached(self.refused("kqueue.max.group.bytes", what))
        if self.member_bytes + more > self._config.all_groups_bytes_max:
            what = (
                f"group {group_id!r}: all members of all groups have {self.member_bytes} bytes, "
                f"and {more} more are asked for"
            )
            raise GroupMaxSizeReached(self.refused("kqueue.max.groups.bytes", what))

    def has_room(self, offsets: Sequence[HasMetadata]) -> bool:
        """Return whether all of these could be added."""
        return self.offset_bytes + offsets_bytes(offsets) <= self._config.offsets_bytes_max

    def refusal(
        self, group_id: str, former: CommittedOffset | None, committed: CommittedOffset, more: int
    ) -> InvalidCommitOffsetSize | None:
        """Return why an offset can't replace `former` while `more` other bytes are added; None if
        it can.
        """
        grows = offsets_bytes([committed]) - (0 if former is None else offsets_bytes([former]))
        if grows <= 0 or self.offset_bytes + more + grows <= self._config.offsets_bytes_max:
            return None
        what = f"group {group_id!r}: an offset can't be committed, all of them have {self.offset_bytes} bytes"
        return InvalidCommitOffsetSize(self.refused("kqueue.max.offsets.bytes", what))

    def add_pending_member(self, member_id: str, revoke: Callable[[], object]) -> None:
        """Track a member id that was assigned. At the limit the oldest one is revoked: its `revoke`
        runs.
        """
        if len(self._pending) >= self._config.pending_members_max:
            self.refused(
                "kqueue.max.pending.members", f"{len(self._pending)} member ids were not used: the oldest is taken back"
            )
            _, oldest = self._pending.popitem(last=False)
            oldest()
        self._pending[member_id] = revoke

    def remove_pending_member(self, member_id: str) -> None:
        """Stop tracking a member id; no effect if it was not pending."""
        self._pending.pop(member_id, None)

    def refused(self, setting: str, what: str) -> str:
        """Return the text of a refusal at a limit, and log it once per minute and setting."""
        text = f"{what}; {setting} sets the bound"
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_line_ms.get(setting, now_ms):
            self._next_line_ms[setting] = now_ms + LINE_INTERVAL_MS
            events.GROUP_LIMIT_REACHED.log(logger, "%s", problem=text)
        return text
