"""Records of the offsets topic, held against those that Apache Kafka wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import MalformedMessage
from kqueue.base.names import parse_uuid
from kqueue.broker.coordinators.record_versions import record_versions
from kqueue.groups.log import records
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.log.schemas import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests.golden import data_folder
from kqueue.tests.tables import for_each

GROUP_KEY = bytes.fromhex("000200026731")
NEW_GROUP = bytes.fromhex("0003000000000000ffffffff000001a1fbfe00b700000000")
STABLE_GROUP = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500386b61666b612d707974686f6e2d332e302e31322d61316236376130662d373835392d34613961"
    "2d623463302d316533653664633837613162000001a1fbfe00d60000000100386b61666b612d707974686f6e2d332e302e31322d61316236376130662d3738"
    "35392d346139612d623463302d316533653664633837613162ffff00136b61666b612d707974686f6e2d332e302e3132000a2f3132372e302e302e31000493"
    "e00000afc80000000d000000000001000174000000000000001900000000000100017400000002000000000000000100000000"
)
EMPTY_GROUP = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a1fbfe014b00000000")
"""The life of group ``g1`` as Kafka 4.3 wrote it: somebody is coming, kafka-python has its
assignment, everybody has left.
"""


def golden(version: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Partition, key and value of every record of the offsets topic."""
    for folder in sorted(data_folder(version).glob("__consumer_offsets-*")):
        for path in sorted(folder.glob("*.log")):
            data = path.read_bytes()
            for position, header in iter_batches(data):
                assert not header.is_control
                for record in iter_records(data, position):
                    assert record.key is not None
                    yield int(folder.name.rpartition("-")[2]), record.key, record.value


def partition_count(version: str) -> int:
    return 1 + max(int(folder.name.rpartition("-")[2]) for folder in data_folder(version).glob("__consumer_offsets-*"))


def test_kafkas_own_offset_record_is_read_and_written_back_byte_for_byte() -> None:
    [(partition, key, value)] = list(golden("4.3"))
    assert records.read_key(key) == OffsetCommitKey(group="golden-v2-gzip", topic="v2-gzip", partition=0)
    assert value is not None
    committed = records.read_offset(value)
    assert committed == CommittedOffset(123, -1, "", 1795226696599, None, parse_uuid("hkGRbaiNSCqd_Az48o7EyA"))
    assert records.offset_key("golden-v2-gzip", "v2-gzip", 0) == key
    assert records.offset_value(committed) == value
    assert partition == 1


@for_each("version", ["2.8", "4.3"])
def test_kafkas_records_are_all_understood_and_lie_where_we_look_for_them(version: str) -> None:
    entries = list(golden(version))
    assert entries
    for partition, key, value in entries:
        read = records.read_key(key)
        assert read is not None
        assert coordinator_partition(read.group, partition_count(version)) == partition
        assert value is not None
        if isinstance(read, OffsetCommitKey):
            committed = records.read_offset(value)
            assert committed.offset == 123
            assert records.offset_value(committed, record_versions(version).committed_offset) == value
            assert records.offset_key(read.group, read.topic, read.partition) == key
        else:
            assert records.group_value(records.read_group(value)) == value
            assert records.group_key(read.group) == key


def test_kafkas_own_group_records_are_read_and_written_back_byte_for_byte() -> None:
    new, stable, empty = (records.read_group(value) for value in (NEW_GROUP, STABLE_GROUP, EMPTY_GROUP))
    assert new == GroupMetadataValue(current_state_timestamp=1795229089975)
    assert empty == GroupMetadataValue(protocol_type="consumer", generation=2, current_state_timestamp=1795229090123)
    [member] = stable.members
    assert (stable.generation, stable.protocol, stable.leader) == (1, "range", member.member_id)
    assert (member.client_id, member.client_host) == ("kafka-python-3.0.12", "/127.0.0.1")
    assert (member.rebalance_timeout, member.session_timeout) == (300_000, 45_000)
    for value in (NEW_GROUP, STABLE_GROUP, EMPTY_GROUP):
        assert records.group_value(records.read_group(value)) == value
    assert records.read_key(GROUP_KEY) == GroupMetadataKey(group="g1")
    assert records.group_key("g1") == GROUP_KEY


def test_the_oldest_kind_of_key_means_an_offset_too() -> None:
    key = b"\x00\x00" + records.offset_key("g", "t", 7)[2:]
    assert records.read_key(key) == OffsetCommitKey(group="g", topic="t", partition=7)


@for_each("kind", [9, 18, 99])
def test_kinds_of_other_group_types_are_left_alone(kind: int) -> None:
    assert records.read_key(kind.to_bytes(2, "big") + b"anything") is None


def test_an_expiry_of_the_clients_own_takes_the_version_that_can_say_it() -> None:
    committed = CommittedOffset(5, -1, "m", 1000, expires_ms=2000)
    value = records.offset_value(committed)
    assert value[:2] == b"\x00\x01"
    assert records.read_offset(value) == committed


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=50),
    st.integers(0, 2**62),
    st.binary(min_size=16, max_size=16),
)
def test_offsets_come_back(offset: int, epoch: int, metadata: str, committed_ms: int, topic_id: bytes) -> None:
    committed = CommittedOffset(offset, epoch, metadata, committed_ms, None, topic_id)
    assert records.read_offset(records.offset_value(committed)) == committed


@for_each(
    "value",
    [b"", b"\x00", b"\x00\x05" + bytes(40), b"\xff\xff" + bytes(40), b"\x00\x03" + bytes(3), b"\x00\x03" + bytes(100)],
)
def test_damaged_values_are_refused(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        records.read_offset(value)
    with pytest.raises(MalformedMessage):
        records.read_group(value)


@for_each("key", [b"", b"\x00", b"\x00\x01\x00\x05g", b"\x00\x02\x00\x01gmore"])
def test_damaged_keys_are_refused(key: bytes) -> None:
    with pytest.raises(MalformedMessage):
        records.read_key(key)
