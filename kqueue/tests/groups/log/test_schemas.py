from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.groups.log.schemas import (
    VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    TopicPartitions,
    subscribed_topics,
)
from kqueue.schema import decode, encode
from kqueue.tests.tables import for_each

TEXTS = st.text(max_size=20)


def subscription(version: int, topics: list[str], **fields: object) -> bytes:
    return VERSION.pack(version) + encode(ConsumerProtocolSubscription(topics=topics, **fields), version)


@for_each("version", range(4))
def test_topics_of_any_version(version: int) -> None:
    owned = [TopicPartitions(topic="a", partitions=[1, 2])]
    data = subscription(version, ["a", "b"], user_data=b"x", owned_partitions=owned, generation_id=3, rack_id="r")
    assert subscribed_topics([data]) == {"a", "b"}


def test_topics_of_a_version_yet_to_come() -> None:
    assert subscribed_topics([VERSION.pack(9) + subscription(3, ["a"])[2:] + b"more"]) == {"a"}


def test_topics_of_all_members() -> None:
    assert subscribed_topics([subscription(0, ["a"]), subscription(1, ["b", "a"])]) == {"a", "b"}


def test_no_members_subscribe_to_nothing() -> None:
    assert subscribed_topics([]) == frozenset()


@for_each(
    "data",
    [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x01", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff"],
)
def test_malformed_subscription_leaves_the_topics_unknown(data: bytes) -> None:
    assert subscribed_topics([subscription(0, ["a"]), data]) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_survived(data: bytes) -> None:
    subscribed_topics([data])


def test_assignment_bytes_are_those_of_the_java_client() -> None:
    value = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartitions(topic="t", partitions=[0, 1])], user_data=None
    )
    assert encode(value, 1).hex() == "00000001" + "000174" + "00000002" + "00000000" + "00000001" + "ffffffff"


@given(
    st.integers(0, 4),
    st.builds(
        GroupMetadataValue,
        protocol_type=TEXTS,
        generation=st.integers(0, 2**31 - 1),
        protocol=st.none() | TEXTS,
        leader=st.none() | TEXTS,
        members=st.lists(
            st.builds(
                MemberMetadata, member_id=TEXTS, subscription=st.binary(max_size=9), assignment=st.binary(max_size=9)
            ),
            max_size=3,
        ),
    ),
)
def test_groups_come_back_in_every_version(version: int, value: GroupMetadataValue) -> None:
    assert decode(GroupMetadataValue, version, encode(value, version)) == value


@given(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1), TEXTS, st.integers(-1, 2**63 - 1))
def test_offsets_come_back_in_every_version(version: int, offset: int, metadata: str, committed_ms: int) -> None:
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=committed_ms)
    assert decode(OffsetCommitValue, version, encode(value, version)) == value
