"""Schemas of the records of `__share_group_state`.

    record key     int16 type (0: snapshot, 1: update), then its fields
    record value   int16 version, then its fields; null (a tombstone) deletes the share partition

Source: Kafka, share-coordinator message definitions.
"""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, string, struct, uuid


@message(versions="0")
class SharePartitionStateKey:
    """The key of a snapshot or an update: its share partition."""

    group_id: str = field(string)
    topic_id: bytes = field(uuid)
    partition: int = field(int32)


@struct
class StateBatchValue:
    """Records with the same state."""

    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_state: int = field(int8)
    delivery_count: int = field(int16)


@message(versions="0", flexible="0+")
class ShareSnapshotValue:
    """All state of a share partition."""

    snapshot_epoch: int = field(int32)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, tag=0, default=-1)
    create_timestamp: int = field(int64)
    write_timestamp: int = field(int64)
    state_batches: list[StateBatchValue] = field(array(StateBatchValue))


@message(versions="0", flexible="0+")
class ShareUpdateValue:
    """What changed since the snapshot or update before."""

    snapshot_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, tag=0, default=-1)
    state_batches: list[StateBatchValue] = field(array(StateBatchValue))
