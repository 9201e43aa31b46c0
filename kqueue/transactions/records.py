"""Encodes and decodes the records of `__transaction_state`.

Writes what Kafka 4.3 writes: version 1 of the value from `transaction.version` 1 on, else 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kqueue.base.errors import MalformedMessage
from kqueue.schema import decode, encode
from kqueue.transactions.marker_writer import TopicPartition
from kqueue.transactions.schemas import TransactionLogKey, TransactionLogValue, TransactionPartitions
from kqueue.transactions.transaction_metadata import TransactionMetadata
from kqueue.transactions.transaction_state import STATE_IDS, TransactionState

VERSION = Struct(">h")
"""The type or version before the fields of keys and values."""
KEY_TYPE = 0
VALUE_VERSION_MAX = 1
_STATES = {id: state for state, id in STATE_IDS.items()}


def transaction_key(transactional_id: str) -> bytes:
    """Return the record key of a transactional id."""
    return VERSION.pack(KEY_TYPE) + encode(TransactionLogKey(transactional_id=transactional_id), 0)


def transaction_value(metadata: TransactionMetadata, transaction_version: int) -> bytes:
    """Return the record value of a transactional id, for a cluster at `transaction_version`."""
    version = min(transaction_version, VALUE_VERSION_MAX)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=STATE_IDS[metadata.state],
        transaction_partitions=(
            None if metadata.state is TransactionState.EMPTY else partitions_by_topic(metadata.partitions)
        ),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return VERSION.pack(version) + encode(value, version)


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> list[TransactionPartitions]:
    """Return partitions grouped by topic, in order."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return [TransactionPartitions(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()]


def read_key(key: bytes | memoryview) -> str | None:
    """Return the transactional id in a record key; None: a record type that kqueue does not know.

    Raises: MalformedMessage: the key is damaged.
    """
    if _version(key, "key") != KEY_TYPE:
        return None
    transactional_id: str = decode(TransactionLogKey, 0, key[VERSION.size :]).transactional_id
    return transactional_id


def read_value(transactional_id: str, value: bytes | memoryview) -> TransactionMetadata:
    """Return the metadata in a record value.

    Raises: MalformedMessage: the value is damaged, or its version or state is unknown.
    """
    version = _version(value, "value")
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise MalformedMessage(
            f"the value of a transaction's record has a version from 0 to {VALUE_VERSION_MAX}, found {version}"
        )
    read = decode(TransactionLogValue, version, value[VERSION.size :])
    state = _STATES.get(read.transaction_status)
    if state is None:
        raise MalformedMessage(
            f"a transaction's state is a number from 0 to {len(_STATES) - 1}, found {read.transaction_status}"
        )
    return TransactionMetadata(
        transactional_id,
        producer_id=read.producer_id,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, index) for topic in read.transaction_partitions or () for index in topic.partition_ids
        ),
        start_ms=read.transaction_start_timestamp_ms,
        updated_ms=read.transaction_last_update_timestamp_ms,
        client_version=read.client_transaction_version,
    )


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(
            f"a transaction record's {what} starts with a version of {VERSION.size} bytes, found {len(data)} bytes"
        )
    version: int = VERSION.unpack_from(data)[0]
    return version
