"""S7.2: records of Kafka's coordinators and metadata log are read as they were written."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kqueue.base.errors import UnencodableMessage
from kqueue.groups.log import consumer_schemas as consumer
from kqueue.log_tools.decoders import schemas
from kqueue.schema import decode, encode
from kqueue.tests.tables import for_each

MEMBER = consumer.ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=["t", "u"],
    rebalance_timeout_ms=300_000,
    server_assignor="uniform",
    classic_member_metadata=consumer.ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=[consumer.ClassicProtocol(name="range", metadata=b"\0\1")]
    ),
)


def changed(made: Any, **values: object) -> Any:
    """A copy with other values."""
    made = copy.copy(made)
    for name, value in values.items():
        setattr(made, name, value)
    return made


@for_each("member", [MEMBER, changed(MEMBER, classic_member_metadata=None, rack_id=None)])
def test_a_member_of_a_consumer_group(member: consumer.ConsumerGroupMemberMetadataValue) -> None:
    assert decode(consumer.ConsumerGroupMemberMetadataValue, 0, encode(member, 0)) == member
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
