"""A group's partitions: where it is in each, how far behind, and which member has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kqueue.client import GroupDescription, GroupMember, ShareOffset, TopicPartition

    Offsets = Mapping[Any, int]  # by (topic, partition), of whichever client

CLASSIC, SHARE, STREAMS = "classic", "share", "streams"
TASK_ROLES = ("active", "standby", "warmup")


class GroupPartition(NamedTuple):
    """One partition of a group with committed offsets; None where a value is unknown."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: GroupMember | None
    is_pending: bool = False

    @property
    def lag(self) -> int | None:
        """The number of records between the committed offset and the end of the log."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)

    @property
    def owner(self) -> tuple[str | None, str | None, str | None]:
        """Member id, host and client id of the member that has it."""
        member = self.member
        return (None, None, None) if member is None else (member.member_id, member.host, member.client_id)

    def as_dict(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed": self.committed,
            "end": self.end,
            "lag": self.lag,
            "pending": self.is_pending,
            **dict(zip(("member_id", "host", "client_id"), self.owner, strict=True)),
        }


class SharePartition(NamedTuple):
    """One partition of a share group; None where a value is unknown."""

    topic: str
    partition: int
    start_offset: int | None
    lag: int | None

    def as_dict(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return self._asdict()


def owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    """Return the member of each assigned partition."""
    return {partition: member for member in group.members for partition in member.assigned}


def group_partitions(
    group: GroupDescription, committed: Offsets, ends: Offsets, pending: Collection[tuple[str, int]] = ()
) -> list[GroupPartition]:
    """Return the partitions that are committed or assigned.

    Tasks of a streams group name partitions that their topic may not have; those are left out.
    """
    owner_of = owners(group)
    assigned = [one for one in owner_of if group.type != STREAMS or one in ends]
    return [
        GroupPartition(one[0], one[1], committed.get(one), ends.get(one), owner_of.get(one), one in pending)
        for one in sorted({*committed, *assigned})
    ]


def share_partitions(offsets: Mapping[TopicPartition, ShareOffset]) -> list[SharePartition]:
    """Return the partitions of a share group."""
    return [SharePartition(*partition, *offset) for partition, offset in sorted(offsets.items())]


def group_dict(group: GroupDescription, rows: Sequence[GroupPartition | SharePartition]) -> dict[str, object]:
    """Return a group as JSON values."""
    return {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [_member_dict(group, member) for member in group.members],
        "partitions": [row.as_dict() for row in rows],
    }


def _member_dict(group: GroupDescription, member: GroupMember) -> dict[str, object]:
    described: dict[str, object] = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "epoch": member.epoch,
    }
    if group.type == STREAMS:
        return {**described, **{f"{role}_tasks": [str(task) for task in getattr(member, role)] for role in TASK_ROLES}}
    return {**described, "assignment": [one._asdict() for one in member.assigned]}
