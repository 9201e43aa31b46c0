"""S7.2: records of Kafka's coordinators and metadata log are read as they were written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kqueue.base.errors import UnencodableMessage, UnsupportedVersion
from kqueue.log_tools.decoders import schemas
from kqueue.schema import decode, encode

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
MEMBER = schemas.ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["t", "u"],
    rebalance_timeout_ms=300_000,
    server_assignor="uniform",
    classic_member_metadata=schemas.ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=[schemas.ClassicProtocol(name="range", metadata=b"\0\1")]
    ),
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


@pytest.mark.parametrize("member", [MEMBER, changed(MEMBER, classic_member_metadata=None, rack_id=None)])
def test_a_member_of_a_consumer_group(member: schemas.ConsumerGroupMemberMetadataValue) -> None:
    assert decode(schemas.ConsumerGroupMemberMetadataValue, 0, encode(member, 0)) == member
    with pytest.raises(UnencodableMessage):
        encode(changed(member, client_id=None), 0)


def test_a_voter_has_its_folder_since_the_second_version() -> None:
    message = schemas.LeaderChangeMessage(
        version=1, leader_id=3, voters=[schemas.Voter(voter_id=3, voter_directory_id=bytes(range(16)))]
    )
    assert decode(schemas.LeaderChangeMessage, 1, encode(message, 1)) == message
    old = changed(message, voters=[schemas.Voter(voter_id=3)])
    assert decode(schemas.LeaderChangeMessage, 0, encode(old, 0)) == old
    assert len(encode(message, 1)) - len(encode(old, 0)) == 16
