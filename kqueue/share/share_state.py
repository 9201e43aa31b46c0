"""The persisted state of a share partition, and how an update changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.names import uuid_text
from kqueue.share.state_batches import StateBatch, overlaid

NO_OFFSET = -1
"""Start offset of a share partition of which nothing was acknowledged yet."""
NO_COUNT = -1
UNCHANGED = -1


class SharePartitionKey(NamedTuple):
    """A partition, by the 16-byte id of its topic, as one group sees it."""

    group: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key that decides which partition of `__share_group_state` keeps it. Source: Kafka's
        SharePartitionKey.
        """
        return f"{self.group}:{uuid_text(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """The persisted state of a share partition.

    Attributes:
        start_offset: records below are done; `NO_OFFSET`: not known yet.
        delivery_complete_count: records from the start offset on that are done; `NO_COUNT`: not
            known.
        snapshot_epoch: counts the snapshots. state_epoch: counts the resets of the offsets.
        batches: sorted, without overlaps; others were never delivered.
    """

    start_offset: int = NO_OFFSET
    batches: Sequence[StateBatch] = ()
    delivery_complete_count: int = NO_COUNT
    state_epoch: int = 0
    leader_epoch: int = 0
    snapshot_epoch: int = 0
    created_ms: int = 0


class ShareUpdate(NamedTuple):
    """A change of a share partition. `start_offset`, `leader_epoch`: -1 leaves it as it is."""

    start_offset: int
    batches: Sequence[StateBatch]
    delivery_complete_count: int = NO_COUNT
    leader_epoch: int = UNCHANGED


def updated(state: ShareState, update: ShareUpdate) -> ShareState:
    """Return `state` after `update`. Source: Kafka's ShareCoordinatorShard.merge."""
    start_offset = state.start_offset if update.start_offset == UNCHANGED else update.start_offset
    count = update.delivery_complete_count
    return state._replace(
        start_offset=start_offset,
        batches=overlaid(state.batches, update.batches, start_offset),
        delivery_complete_count=state.delivery_complete_count if count == NO_COUNT else count,
        leader_epoch=state.leader_epoch if update.leader_epoch == UNCHANGED else update.leader_epoch,
    )
