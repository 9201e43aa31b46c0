"""S7.2: records of the transaction coordinator are read as they were written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kqueue.base.errors import UnsupportedVersion
from kqueue.schema import decode, encode
from kqueue.transactions import schemas

TRANSACTION = schemas.TransactionLogValue(
    producer_id=7,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[schemas.TransactionPartitions(topic="t", partition_ids=[0, 3])],
    transaction_last_update_timestamp_ms=11,
    transaction_start_timestamp_ms=10,
)
OLD_BYTES = (
    "0000000000000007 0002 0000ea60 01 00000001 0001 74 00000002 00000000 00000003 000000000000000b 000000000000000a"
)


def changed(made: Any, **values: object) -> Any:
    """A copy with other values."""
    made = copy.copy(made)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_a_transaction_of_the_first_version_byte_for_byte() -> None:
    assert encode(TRANSACTION, 0) == bytes.fromhex(OLD_BYTES)
    assert decode(schemas.TransactionLogValue, 0, bytes.fromhex(OLD_BYTES)) == TRANSACTION


def test_a_transaction_of_the_newer_version_keeps_what_is_tagged() -> None:
    newer = changed(
        TRANSACTION,
        previous_producer_id=2**40,
        next_producer_id=2**41,
        next_producer_epoch=1,
        client_transaction_version=2,
    )
    assert decode(schemas.TransactionLogValue, 1, encode(newer, 1)) == newer
    none = changed(TRANSACTION, transaction_partitions=None)
    assert decode(schemas.TransactionLogValue, 1, encode(none, 1)) == none
    with pytest.raises(UnsupportedVersion):
        encode(TRANSACTION, 2)
