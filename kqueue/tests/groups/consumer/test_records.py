"""Records of consumer groups: Kafka's bytes, both ways."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.consumer import records as consumer_records
from kqueue.groups.consumer.member import ClassicProtocols, Subscription
from kqueue.groups.consumer.records import ResolvedRegex
from kqueue.groups.log import modern_records, records
from kqueue.groups.log.modern_records import ModernKey
from kqueue.groups.modern import records as modern_values
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.modern.records import GroupEpoch, TargetEpoch
from kqueue.tests.tables import for_each

TOPIC = bytes.fromhex("c6c3dd6287574b0eaece14e3f2233b02")
EPOCH = bytes.fromhex("0000 00000002 01 00 08 cda39d1d37fd11ba".replace(" ", ""))
SUBSCRIPTION = b"\0\0\0\0\x02t\x0b/127.0.0.1\x02\x02t\x01\0\0\xea`\0\x01\0\x01\0"
TARGET = b"\0\0\x02" + TOPIC + b"\x05" + bytes.fromhex("00000000000000010000000200000003") + b"\0\0"
TARGET_EPOCH = bytes.fromhex("0000 00000002 01 00 08 000001a2074c84aa".replace(" ", ""))
CURRENT = (
    b"\0\0\0\0\0\x02\0\0\0\0\0\x02"
    + TOPIC
    + b"\x05"
    + bytes.fromhex("00000000000000010000000200000003")
    + b"\x01\0\x11\x05"
    + bytes.fromhex("00000002") * 4
    + b"\x01\0"
)
"""Written by Kafka 4.3 for the first member of a group."""


def test_kafkas_records_are_read_and_written() -> None:
    assert consumer_records.read_epoch(EPOCH) == GroupEpoch(2, -3628884125911543366)
    assert consumer_records.epoch_value(GroupEpoch(2, -3628884125911543366)) == EPOCH
    subscription = Subscription(client_id="t", client_host="/127.0.0.1", topics=("t",), rebalance_timeout_ms=60_000)
    assert consumer_records.read_metadata(SUBSCRIPTION) == subscription
    assert consumer_records.metadata_value(subscription) == SUBSCRIPTION
    assert modern_values.read_target(TARGET) == {TOPIC: {0, 1, 2, 3}}
    assert modern_values.target_value({TOPIC: frozenset(range(4))}) == TARGET
    assert modern_values.read_target_epoch(TARGET_EPOCH) == (2, 1795418784938)
    assert modern_values.target_epoch_value(TargetEpoch(2, 1795418784938)) == TARGET_EPOCH
    current = CurrentAssignment(2, 0, ModernMemberState.STABLE, {TOPIC: dict.fromkeys(range(4), 2)})
    assert consumer_records.read_current(CURRENT) == current
    assert consumer_records.current_value(current) == CURRENT


@for_each(
    "key, expected",
    [
        (b"\0\x03\0\x01g", ModernKey(3, "g")),
        (b"\0\x05\0\x01g\0\x02m1", ModernKey(5, "g", "m1")),
        (b"\0\x10\0\x01g\0\x03t.*", ModernKey(16, "g", "t.*")),
    ],
)
def test_kafkas_keys_are_read_and_written(key: bytes, expected: ModernKey) -> None:
    assert records.read_key(key) == expected
    assert modern_records.key(*expected) == key


def test_a_member_of_the_classic_protocol_keeps_its_protocols() -> None:
    subscription = Subscription(instance_id="i", rack_id="r", regex="t.*", assignor="range")._replace(
        classic=ClassicProtocols(45_000, (("range", b"1"), ("sticky", b"2")))
    )
    assert consumer_records.read_metadata(consumer_records.metadata_value(subscription)) == subscription


def test_a_pattern_keeps_its_topics() -> None:
    regex = ResolvedRegex(frozenset("abc"), 7, 1_700_000_000_000)
    assert consumer_records.read_regex(consumer_records.regex_value(regex)) == regex


def test_without_epochs_of_assignment_they_are_the_members() -> None:
    """As Kafka wrote before 4.3."""
    old = CURRENT[:34].replace(b"\x05" + bytes(4), b"\x02" + bytes(4))[:33] + b"\0\x01\0"
    assert consumer_records.read_current(old).assigned == {TOPIC: {0: 2}}


@for_each("value", [b"", b"\0", b"\0\x01" + EPOCH[2:], EPOCH[:-1]])
def test_a_damaged_value_is_named(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        consumer_records.read_epoch(value)


def test_an_unknown_state_of_a_member_is_read() -> None:
    value = CURRENT[:10] + b"\x09" + CURRENT[11:]
    assert consumer_records.read_current(value).state is ModernMemberState.UNKNOWN
