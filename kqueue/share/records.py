"""Encodes and decodes the records of `__share_group_state`, as Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.schema import array, decode, encode, field, int8, int16, int32, int64, message, string, struct, uuid
from kqueue.share.record_state import TRANSITIONS, RecordState
from kqueue.share.share_state import SharePartitionKey, ShareState, ShareUpdate
from kqueue.share.state_batches import StateBatch, is_sorted, joined

VERSION = Struct(">h")
"""The type or version before the fields of keys and values."""
SNAPSHOT = 0
UPDATE = 1


# Schemas of the records of `__share_group_state`.
#
#     record key     int16 type (0: snapshot, 1: update), then its fields
#     record value   int16 version, then its fields; null (a tombstone) deletes the share partition
#
# Source: Kafka, share-coordinator message definitions.


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
    """The changes since the snapshot or update before."""

    snapshot_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, tag=0, default=-1)
    state_batches: list[StateBatchValue] = field(array(StateBatchValue))


class StateKey(NamedTuple):
    """The key of a record. `is_snapshot`: else it is an update."""

    key: SharePartitionKey
    is_snapshot: bool


def snapshot_key(key: SharePartitionKey) -> bytes:
    """Return the record key of a snapshot, and of a tombstone."""
    return _key(SNAPSHOT, key)


def update_key(key: SharePartitionKey) -> bytes:
    """Return the record key of an update."""
    return _key(UPDATE, key)


def snapshot_value(state: ShareState, now_ms: int) -> bytes:
    """Return the record value with all of `state`."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=now_ms,
        state_batches=_values(state.batches),
    )
    return VERSION.pack(0) + encode(value, 0)


def update_value(update: ShareUpdate, snapshot_epoch: int) -> bytes:
    """Return the record value of a change since the snapshot of this epoch."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_values(update.batches),
    )
    return VERSION.pack(0) + encode(value, 0)


def read_key(data: bytes | memoryview) -> StateKey | None:
    """Return what a record key names; None: a record type that kqueue does not know.

    Raises: MalformedMessage: the key is damaged.
    """
    kind = _version(data, "key")
    if kind not in (SNAPSHOT, UPDATE):
        return None
    read = decode(SharePartitionStateKey, 0, data[VERSION.size :])
    return StateKey(SharePartitionKey(read.group_id, bytes(read.topic_id), read.partition), kind == SNAPSHOT)


def read_snapshot(data: bytes | memoryview) -> ShareState:
    """Return the state in the value of a snapshot. Raises: MalformedMessage."""
    read = decode(ShareSnapshotValue, 0, _fields(data))
    return ShareState(
        start_offset=read.start_offset,
        batches=joined(_batches(read.state_batches)),
        delivery_complete_count=read.delivery_complete_count,
        state_epoch=read.state_epoch,
        leader_epoch=read.leader_epoch,
        snapshot_epoch=read.snapshot_epoch,
        created_ms=read.create_timestamp,
    )


def read_update(data: bytes | memoryview) -> ShareUpdate:
    """Return the change in the value of an update. Raises: MalformedMessage."""
    read = decode(ShareUpdateValue, 0, _fields(data))
    return ShareUpdate(read.start_offset, _batches(read.state_batches), read.delivery_complete_count, read.leader_epoch)


def _key(kind: int, key: SharePartitionKey) -> bytes:
    fields = SharePartitionStateKey(group_id=key.group, topic_id=key.topic_id, partition=key.partition)
    return VERSION.pack(kind) + encode(fields, 0)


def _values(batches: Iterable[StateBatch]) -> list[StateBatchValue]:
    return [
        StateBatchValue(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=batch.state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def _batches(values: Iterable[StateBatchValue]) -> list[StateBatch]:
    known = {int(state) for state in TRANSITIONS}
    batches = []
    for value in values:
        if value.delivery_state not in known or not 0 <= value.first_offset <= value.last_offset:
            raise MalformedMessage(
                f"a batch of a share partition's state has one of the states {sorted(known)} and a range of offsets, "
                f"found state {value.delivery_state} of {value.first_offset} to {value.last_offset}"
            )
        state = RecordState(value.delivery_state)
        batches.append(StateBatch(value.first_offset, value.last_offset, state, value.delivery_count))
    if not is_sorted(batches):
        raise MalformedMessage("the batches of a share partition's state are sorted and do not overlap; these do not")
    return batches


def _fields(data: bytes | memoryview) -> bytes | memoryview:
    version = _version(data, "value")
    if version != 0:
        raise MalformedMessage(f"the value of a share partition's record has version 0, found {version}")
    return data[VERSION.size :]


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(
            f"a share partition record's {what} starts with a version of {VERSION.size} bytes, found {len(data)} bytes"
        )
    version: int = VERSION.unpack_from(data)[0]
    return version
