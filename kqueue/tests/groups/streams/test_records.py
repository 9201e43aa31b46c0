"""Records of streams groups: Kafka's bytes, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.groups.log import modern_records, records
from kqueue.groups.log.modern_records import ModernKey
from kqueue.groups.modern import records as modern_values
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.modern.records import GroupEpoch, TargetEpoch
from kqueue.groups.streams import records as streams_records
from kqueue.groups.streams.member import MemberEndpoint, StreamsMemberMetadata, SubtopologyRole, TaskRole
from kqueue.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kqueue.tests.tables import for_each

ACTIVE = SubtopologyRole(TaskRole.ACTIVE, "0")
STANDBY = SubtopologyRole(TaskRole.STANDBY, "1")
EPOCH = "000000000002000000000000000702000400000000011902156e756d2e7374616e6462792e7265706c69636173023000"
MEMBER = "00000002720263032f680000ea6000000000027001026800090002026b02760000"
TARGET_EPOCH = "00000000000201000800000000000003e8"
TARGET = "0000020230030000000000000001000202310200000002000100"
CURRENT = (
    "000000000002000000010202023003000000000000000101000903000000020000000102"
    "02310200000002000102023002000000030100050200000001010100"
)
TOPOLOGY = (
    "000000000000030230020274010101020a6170702d776f726473000000000000020f636c65616e75702e706f6c6963790764"
    "656c65746500000202000001020000000002310202750101020a6170702d776f72647301010000"
)
CASES: list[tuple[str, str, str, Any, Any, Any]] = [
    (
        "0011000167",
        "",
        EPOCH,
        GroupEpoch(2, 7, 0, (("num.standby.replicas", "0"),)),
        streams_records.epoch_value,
        streams_records.read_epoch,
    ),
    (
        "001300016700016d",
        "m",
        MEMBER,
        StreamsMemberMetadata(None, "r", "c", "/h", 60_000, 0, "p", MemberEndpoint("h", 9), (("k", "v"),)),
        streams_records.metadata_value,
        streams_records.read_metadata,
    ),
    (
        "0014000167",
        "",
        TARGET_EPOCH,
        TargetEpoch(2, 1000),
        modern_values.target_epoch_value,
        modern_values.read_target_epoch,
    ),
    (
        "001500016700016d",
        "m",
        TARGET,
        {ACTIVE: frozenset({0, 1}), STANDBY: frozenset({2})},
        streams_records.target_value,
        streams_records.read_target,
    ),
    (
        "001600016700016d",
        "m",
        CURRENT,
        CurrentAssignment(
            2,
            1,
            ModernMemberState.UNREVOKED_PARTITIONS,
            {ACTIVE: {0: 2, 1: 1}, STANDBY: {2: 2}},
            {ACTIVE: {3: 1}},
        ),
        streams_records.current_value,
        streams_records.read_current,
    ),
    (
        "0017000167",
        "",
        TOPOLOGY,
        Topology(
            0,
            (
                Subtopology(
                    "0",
                    ("t",),
                    (InternalTopic("app-words", configs=(("cleanup.policy", "delete"),)),),
                    copartition_groups=(CopartitionGroup((0,), (0,)),),
                ),
                Subtopology("1", ("u",), sink_topics=("app-words",)),
            ),
        ),
        streams_records.topology_value,
        streams_records.read_topology,
    ),
]
"""Key, member id, Kafka's value, the same as an object, writer, reader."""


@for_each("key, name, value, content, write, read", CASES)
def test_kafkas_bytes(key: str, name: str, value: str, content: Any, write: Any, read: Any) -> None:
    raw = bytes.fromhex(key)
    assert records.read_key(raw) == ModernKey(raw[1], "g", name)
    assert modern_records.key(raw[1], "g", name) == raw
    assert read(bytes.fromhex(value)) == content
    assert write(content) == bytes.fromhex(value)


def test_unset_fields_are_not_written() -> None:
    epoch = GroupEpoch(3, 0, -1, ())
    assert streams_records.epoch_value(epoch) == bytes.fromhex("0000 00000003 0000000000000000 00")
    assert streams_records.read_epoch(streams_records.epoch_value(epoch)) == epoch
    metadata = StreamsMemberMetadata(process_id="p", topology_epoch=0)
    assert streams_records.read_metadata(streams_records.metadata_value(metadata)) == metadata


@for_each(
    "number, state",
    [
        (1, ModernMemberState.STABLE),
        (2, ModernMemberState.UNREVOKED_PARTITIONS),
        (3, ModernMemberState.UNRELEASED_PARTITIONS),
        (127, ModernMemberState.UNKNOWN),
        (9, ModernMemberState.UNKNOWN),
    ],
)
def test_states_have_the_numbers_of_streams_groups(number: int, state: ModernMemberState) -> None:
    value = bytearray.fromhex(CURRENT)
    value[10] = number
    read = streams_records.read_current(bytes(value))
    assert read.state is state
    assert streams_records.current_value(read)[10] == streams_records.STATE_NUMBERS[state]


def test_a_damaged_value_is_an_error() -> None:
    with pytest.raises(MalformedMessage, match="version 0, found 1"):
        streams_records.read_epoch(b"\0\1" + bytes(12))
    with pytest.raises(MalformedMessage, match="2 tasks of a subtopology and 1 epochs"):
        streams_records.read_current(bytes.fromhex(CURRENT.replace("09030000000200000001", "050200000002")))
