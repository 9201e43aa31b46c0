"""The output of `kqueue groups describe` for a group of each type, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kqueue.admin.group_partitions import CLASSIC, SHARE, STREAMS, TASK_ROLES, GroupPartition, SharePartition
from kqueue.base.terminal import one_line
from kqueue.cli.output import columns

if TYPE_CHECKING:
    from kqueue.client import GroupDescription

GROUP_HEAD = ("GROUP", "TYPE", "STATE", "EPOCH", "ASSIGNMENT-EPOCH", "ASSIGNOR", "MEMBERS")
HEAD = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
SHARE_HEAD = ("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG")
MEMBER_HEAD = ("CONSUMER-ID", "HOST", "CLIENT-ID", "EPOCH")


def show(group: GroupDescription, rows: Sequence[GroupPartition | SharePartition]) -> None:
    """Print a group: classic ones as one table of partitions, others with their epochs and members.

    Notes about what is missing go to standard error.
    """
    if not group.members:
        click.echo(f"The group {one_line(group.name)} has no members.", err=True)
    offsets = columns(SHARE_HEAD if group.type == SHARE else HEAD, [_partition_cells(group.name, row) for row in rows])
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


def _partition_cells(group: str, row: GroupPartition | SharePartition) -> list[object]:
    if isinstance(row, SharePartition):
        return _cells(group, *row)
    return _cells(group, row.topic, row.partition, row.committed, row.end, row.lag, *row.owner)


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


def _joined(items: Iterable[object]) -> str | None:
    return ",".join(map(str, items)) or None


def _cells(*values: object) -> list[object]:
    return ["-" if value is None else value for value in values]
