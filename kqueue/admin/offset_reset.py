"""Reset of a group's offsets: the plan, which shows what changes, and its execution.

    target = ResetTarget(ResetKind.EARLIEST)
    check_no_members(client, "billing", client.groups().get("billing"))
    plan = plan_reset(client, partitions, positions(client, "billing", CLASSIC), target)
    refused = execute_reset(client, "billing", CLASSIC, plan)

`kqueue groups reset-offsets` and the console in the browser share it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.admin.group_lags import group_progress
from kqueue.admin.group_partitions import SHARE
from kqueue.base.errors import KqueueError
from kqueue.client import EARLIEST, LATEST, Client, GroupListing, TopicPartition
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.client.retry_policy import name_of

STATES_WITHOUT_MEMBERS = ("Empty", "Dead")
NAMES_SHOWN = 10
TIME_MAX_MS = 2**63 - 1

Offsets = Mapping[TopicPartition, int]


class ResetKind(enum.Enum):
    """Where a reset moves offsets. The value names it in forms."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


class ResetTarget(NamedTuple):
    """Where a reset moves offsets.

    `value`: of OFFSET the offset, negative: so many records before the end; of TIME milliseconds
    since 1970; of SHIFT the number of records, negative: back. Otherwise unused.
    """

    kind: ResetKind
    value: int = 0


class ResetRefused(KqueueError):
    """The reset can't be planned: the group has members, or has nothing to shift."""


class PlannedOffset(NamedTuple):
    """The reset of one partition.

    `current`: None: the group has committed nothing there. `start`, `end`: of its log.
    """

    partition: TopicPartition
    current: int | None
    new: int
    start: int
    end: int

    @property
    def skipped(self) -> int | None:
        """Records that the group has not read and will not read; None: not known, because the
        group's position is not.
        """
        return None if self.current is None else max(0, self.new - max(self.current, self.start))

    @property
    def read_again(self) -> int | None:
        """Records that the group has read and will read again; None as in `skipped`."""
        return None if self.current is None else max(0, min(self.current, self.end) - self.new)

    @property
    def lag(self) -> int:
        """Records to read after the reset."""
        return self.end - self.new


def check_no_members(client: Client, name: str, listing: GroupListing | None) -> None:
    """Check that a group has no members, by its listing.

    Before Kafka 2.6 a listing has no state, and all groups are classic: the group is described.
    Args:
        listing: None: there is no such group, so it has none.
    Raises: ResetRefused: it has members. ClientError.
    """
    if listing is None:
        return
    state = listing.state or client.describe_classic_group(name).state
    if state not in STATES_WITHOUT_MEMBERS:
        raise ResetRefused(f"the group {name!r} has members (its state is {state}); stop its consumers first")


def positions(client: Client, name: str, type: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, of a share group its start offsets.

    Raises: ClientError.
    """
    return dict(group_progress(client, GroupListing(name, "", "", type)).offsets)


def plan_reset(
    client: Client, partitions: Iterable[TopicPartition], current: Offsets, target: ResetTarget
) -> list[PlannedOffset]:
    """Return the new offset of each partition, within its log, sorted; nothing changes.

    Partitions that do not exist are left out.

    Args:
        current: the group's positions.
    Raises: ResetRefused: SHIFT, and a partition has no current offset. ClientError.
    """
    topics = client.metadata().topics
    existing = sorted(
        {one for one in partitions if one.topic in topics and one.partition in topics[one.topic].partitions}
    )
    if not existing:
        return []
    if target.kind is ResetKind.SHIFT:
        _check_committed(existing, current)
    starts, ends = (_offsets_at(client, existing, spec) for spec in (EARLIEST, LATEST))
    new = _new_offsets(client, existing, current, starts, ends, target)
    return [
        PlannedOffset(
            one, current.get(one), min(max(new[one], starts[one]), ends[one]), start=starts[one], end=ends[one]
        )
        for one in existing
    ]


def execute_reset(client: Client, name: str, type: str, plan: Iterable[PlannedOffset]) -> dict[TopicPartition, str]:
    """Commit the new offsets; return why each refused partition was refused.

    Raises: ClientError: of the whole request; BrokerRefused of partitions is returned instead.
    """
    offsets = {planned.partition: planned.new for planned in plan}
    if type == SHARE:
        outcome = client.alter_share_offsets(name, offsets)
        return {
            partition: refusal.message or name_of(refusal.code)
            for partition, refusal in outcome.items()
            if refusal.code
        }
    try:
        client.commit(name, offsets)
    except BrokerRefused as error:
        if not error.failed:
            raise
        return {partition: str(failed) for partition, failed in error.failed.items()}
    return {}


def _new_offsets(
    client: Client,
    partitions: list[TopicPartition],
    current: Offsets,
    starts: Offsets,
    ends: Offsets,
    target: ResetTarget,
) -> Offsets:
    """Return the new offsets before they are clamped to the logs."""
    kind, value = target
    if kind is ResetKind.EARLIEST:
        return starts
    if kind is ResetKind.LATEST:
        return ends
    if kind is ResetKind.OFFSET:
        return {one: value if value >= 0 else ends[one] + value for one in partitions}
    if kind is ResetKind.SHIFT:
        return {one: current[one] + value for one in partitions}
    answers = client.offsets(dict.fromkeys(partitions, min(max(0, value), TIME_MAX_MS)))
    # None: no record at or after the time
    return {one: ends[one] if (offset := answers[one].offset) is None else offset for one in partitions}


def _offsets_at(client: Client, partitions: list[TopicPartition], spec: int) -> dict[TopicPartition, int]:
    answers = client.offsets(dict.fromkeys(partitions, spec))
    unknown = [one for one, entry in answers.items() if entry.offset is None]
    if unknown:
        raise ClientError(f"the broker does not say where the log of {unknown[0]} begins or ends")
    return {one: entry.offset for one, entry in answers.items() if entry.offset is not None}


def _check_committed(partitions: Iterable[TopicPartition], current: Offsets) -> None:
    without = [str(one) for one in partitions if one not in current]
    if not without:
        return
    more = len(without) - NAMES_SHOWN
    names = ", ".join(without[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    raise ResetRefused(f"there is no committed offset to shift for {names}; reset those to the earliest or an offset")
