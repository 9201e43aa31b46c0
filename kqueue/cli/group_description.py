"""The output of `kqueue groups describe` for a group of each type, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kqueue.base.terminal import one_line
from kqueue.cli.output import columns

if TYPE_CHECKING:
    from kqueue.client import GroupDescription, GroupMember, ShareOffset, TopicPartition

    Offsets = Mapping[Any, int]  # by (topic, partition), of whichever client

CLASSIC, SHARE, STREAMS = "classic", "share", "streams"
GROUP_HEAD = ("GROUP", "TYPE", "STATE", "EPOCH", "ASSIGNMENT-EPOCH", "ASSIGNOR", "MEMBERS")
HEAD = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
SHARE_HEAD = ("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG")
MEMBER_HEAD = ("CONSUMER-ID", "HOST", "CLIENT-ID", "EPOCH")
TASK_ROLES = ("active", "standby", "warmup")


class Row(NamedTuple):
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
    def _owner(self) -> tuple[str | None, ...]:
        member = self.member
        return (None,) * 3 if member is None else (member.member_id, member.host, member.client_id)

    def as_dict(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed": self.committed,
            "end": self.end,
            "lag": self.lag,
            "pending": self.is_pending,
            **dict(zip(("member_id", "host", "client_id"), self._owner, strict=True)),
        }

    def cells(self, group: str) -> list[object]:
        """Return the row as cells of a table; ``-`` for an unknown value."""
        return _cells(group, self.topic, self.partition, self.committed, self.end, self.lag, *self._owner)


class ShareRow(NamedTuple):
    """One partition of a share group; None where a value is unknown."""

    topic: str
    partition: int
    start_offset: int | None
    lag: int | None

    def as_dict(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return self._asdict()

    def cells(self, group: str) -> list[object]:
        """Return the row as cells of a table; ``-`` for an unknown value."""
        return _cells(group, *self)


def owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    """Return the member of each assigned partition."""
    return {partition: member for member in group.members for partition in member.assigned}


def offset_rows(
    group: GroupDescription, committed: Offsets, ends: Offsets, pending: Collection[tuple[str, int]] = ()
) -> list[Row]:
    """Return the partitions that are committed or assigned.

    Tasks of a streams group name partitions that their topic may not have; those are left out.
    """
    owner_of = owners(group)
    assigned = [one for one in owner_of if group.type != STREAMS or one in ends]
    return [
        Row(one[0], one[1], committed.get(one), ends.get(one), owner_of.get(one), one in pending)
        for one in sorted({*committed, *assigned})
    ]


def share_rows(offsets: Mapping[TopicPartition, ShareOffset]) -> list[ShareRow]:
    """Return the partitions of a share group."""
    return [ShareRow(*partition, *offset) for partition, offset in sorted(offsets.items())]


def classic_group(name: str, described: Mapping[str, Any]) -> GroupDescription:
    """Return what kafka-python describes; members that are no consumers have no partitions."""
    from kqueue.client import GroupDescription, GroupMember, TopicPartition

    members = []
    for member in described["members"]:
        assignment = member["member_assignment"]
        topics = assignment["assigned_partitions"] if isinstance(assignment, dict) else ()
        assigned = tuple(TopicPartition(topic["topic"], index) for topic in topics for index in topic["partitions"])
        members.append(
            GroupMember(
                member["member_id"],
                member["client_id"],
                member["client_host"],
                member.get("group_instance_id"),
                assigned=assigned,
            )
        )
    return GroupDescription(name, CLASSIC, described["group_state"], tuple(members))


def as_dict(group: GroupDescription, rows: Sequence[Row | ShareRow]) -> dict[str, object]:
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


def show(group: GroupDescription, rows: Sequence[Row | ShareRow]) -> None:
    """Print a group: classic ones as one table of partitions, others with their epochs and members.

    Notes about what is missing go to standard error.
    """
    if not group.members:
        click.echo(f"The group {one_line(group.name)} has no members.", err=True)
    offsets = columns(SHARE_HEAD if group.type == SHARE else HEAD, [row.cells(group.name) for row in rows])
    if group.type == CLASSIC:
        click.echo(offsets)
        return
    epochs = (group.epoch, group.assignment_epoch, group.assignor)
    tables = [columns(GROUP_HEAD, [_cells(group.name, group.type, group.state, *epochs, len(group.members))])]
    if rows:
        tables.append(offsets)
    else:
        click.echo(f"The group {one_line(group.name)} has no offsets.", err=True)
    if group.members:
        tables.append(_members_table(group))
    click.echo("\n\n".join(tables))


def _members_table(group: GroupDescription) -> str:
    is_streams = group.type == STREAMS
    head = [f"{role.upper()}-TASKS" for role in TASK_ROLES] if is_streams else ["ASSIGNMENT"]
    rows = [
        _cells(
            *(member.member_id, member.host, member.client_id, member.epoch),
            *([_joined(getattr(member, role)) for role in TASK_ROLES] if is_streams else [_joined(member.assigned)]),
        )
        for member in group.members
    ]
    return columns((*MEMBER_HEAD, *head), rows)


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


def _joined(items: Iterable[object]) -> str | None:
    return ",".join(map(str, items)) or None


def _cells(*values: object) -> list[object]:
    return ["-" if value is None else value for value in values]
