"""Schemas of the records of `__transaction_state`.

    record key     int16 type (0), then its fields
    record value   int16 version, then its fields; null (a tombstone) deletes the transactional id

Source: Kafka, transaction-coordinator message definitions.
"""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, int64, message, string, struct


@message(versions="0")
class TransactionLogKey:
    """The key of a transaction record: its transactional id."""

    transactional_id: str = field(string)


@struct
class TransactionPartitions:
    """Partitions of one topic in a transaction."""

    topic: str = field(string)
    partition_ids: list[int] = field(array(int32))


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of a transactional id and of its last transaction."""

    producer_id: int = field(int64)
    previous_producer_id: int = field(int64, "1+", tag=0, default=-1, ignorable=True)
    next_producer_id: int = field(int64, "1+", tag=1, default=-1, ignorable=True)
    producer_epoch: int = field(int16)
    next_producer_epoch: int = field(int16, "1+", tag=3, default=-1, ignorable=True)
    transaction_timeout_ms: int = field(int32)
    transaction_status: int = field(int8)
    transaction_partitions: list[TransactionPartitions] | None = field(
        array(TransactionPartitions), nullable="0+", default=None
    )
    transaction_last_update_timestamp_ms: int = field(int64)
    transaction_start_timestamp_ms: int = field(int64)
    client_transaction_version: int = field(int16, "1+", tag=2, ignorable=True)
