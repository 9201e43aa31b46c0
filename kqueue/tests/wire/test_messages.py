"""Every message at every version: back and forth, cut short, lying lengths, flipped bytes."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.schema import decode, encode, message_schema_of
from kqueue.tests.schema.strategies import filled, messages
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners, examples
from kqueue.wire.apis import ALL
from kqueue.wire.messages import fetch, metadata, produce

CLASSES = [cls for api in ALL for cls in (api.request_class, api.response_class)]
each_message = for_each("cls", CLASSES)
LIES = [
    bytes.fromhex(text) for text in ("00", "80", "7fff", "8000", "7fffffff", "80000000", "ffffffff0f", "ffffffff10")
]


def versions_of(cls: type[Any]) -> range:
    schema = message_schema_of(cls)
    return range(schema.versions.low, schema.versions.high + 1)


@each_message
@settings(max_examples=examples(8, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_encoded_message_decodes_to_the_same_at_every_version(cls: type[Any], data: st.DataObject) -> None:
    for version in versions_of(cls):
        message = data.draw(messages(cls, version))
        assert decode(cls, version, encode(message, version)) == message


@each_message
def test_defaults_can_be_written_at_every_version(cls: type[Any]) -> None:
    for version in versions_of(cls):
        assert decode(cls, version, encode(cls(), version)) == cls()


@each_message
def test_versions_outside_the_range_are_refused(cls: type[Any]) -> None:
    for version in (-1, versions_of(cls).stop):
        with pytest.raises(UnsupportedVersion, match=f"not {version}"):
            encode(cls(), version)
        with pytest.raises(UnsupportedVersion, match=f"not {version}"):
            decode(cls, version, b"")


@each_message
def test_a_message_cut_at_any_byte_or_with_one_more_is_malformed(cls: type[Any]) -> None:
    for version in versions_of(cls):
        whole = encode(filled(cls, version), version)
        assert decode(cls, version, whole) == filled(cls, version)
        for size in range(len(whole)):
            with pytest.raises(MalformedMessage, match=r"expected .* found"):
                decode(cls, version, whole[:size])
        with pytest.raises(MalformedMessage, match="1 bytes more"):
            decode(cls, version, whole + b"\0")


@each_message
@pytest.mark.parametrize("places", corners([10, 40]))
def test_lying_lengths_anywhere_raise_nothing_else_and_allocate_little(cls: type[Any], places: int) -> None:
    for version in {versions_of(cls)[0], versions_of(cls)[-1]}:
        whole = encode(filled(cls, version), version)
        decode(cls, version, whole)
        positions = range(0, len(whole), len(whole) // places + 1)
        lies = [whole[:position] + lie + whole[position + len(lie) :] for position in positions for lie in LIES]
        for data in lies:  # the first one with bytes that are not UTF-8 compiles a reader for such
            _decode_or_refuse(cls, version, data)
        tracemalloc.start()
        for data in lies:
            _decode_or_refuse(cls, version, data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200_000


def _decode_or_refuse(cls: type[Any], version: int, data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        decode(cls, version, data)


@settings(max_examples=examples(300), deadline=None)
@given(api=st.sampled_from(ALL), data=st.binary(max_size=60), draw=st.data())
def test_any_bytes_are_a_message_or_malformed(api: Any, data: bytes, draw: st.DataObject) -> None:
    cls = draw.draw(st.sampled_from([api.request_class, api.response_class]))
    _decode_or_refuse(cls, draw.draw(st.sampled_from(versions_of(cls))), data)


# --- bytes written out by hand, so that not only our own reader agrees with our own writer


def test_a_produce_request_of_the_newest_string_version_byte_by_byte() -> None:
    request = produce.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            produce.TopicProduceData(
                name="orders", partition_data=[produce.PartitionProduceData(index=3, records=memoryview(b"batch"))]
            )
        ],
    )
    expected = "00 ffff 00007530 02 07 6f7264657273 02 00000003 06 6261746368 00 00 00"
    assert encode(request, 9).hex() == expected.replace(" ", "")


def test_a_produce_request_of_version_0_byte_by_byte() -> None:
    request = produce.ProduceRequest(
        acks=1,
        timeout_ms=5,
        topic_data=[produce.TopicProduceData(name="a", partition_data=[produce.PartitionProduceData(records=None)])],
    )
    expected = "0001 00000005 00000001 0001 61 00000001 00000000 ffffffff"
    assert encode(request, 0).hex() == expected.replace(" ", "")
    assert decode(produce.ProduceRequest, 0, encode(request, 0)) == request


def test_tagged_fields_are_written_in_order_of_tags_and_only_where_not_default() -> None:
    partition = fetch.PartitionData(partition_index=1, snapshot_id=fetch.SnapshotId(end_offset=5, epoch=2), records=b"")
    partition.diverging_epoch = fetch.EpochEndOffset(epoch=4, end_offset=9)
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=[partition])])
    data = encode(response, 12).hex()
    assert data.endswith("0102000d00000004000000000000000900020d000000000000000500000002000000")
    assert decode(fetch.FetchResponse, 12, bytes.fromhex(data)) == response


def test_a_tagged_struct_equal_to_the_default_is_not_written() -> None:
    partition = fetch.PartitionData(current_leader=fetch.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1))
    plain = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[fetch.PartitionData()])])
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[partition])])
    assert encode(response, 12) == encode(plain, 12)


def test_null_and_empty_lists_are_told_apart() -> None:
    assert decode(metadata.MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    assert decode(metadata.MetadataRequest, 1, b"\0\0\0\0").topics == []
    for aborted in (None, []):
        partition = fetch.PartitionData(aborted_transactions=aborted)
        response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[partition])])
        assert decode(fetch.FetchResponse, 12, encode(response, 12)) == response


def test_null_at_a_version_that_cannot_say_it_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="found null"):
        decode(metadata.MetadataRequest, 0, b"\xff\xff\xff\xff")
    with pytest.raises(
        UnsupportedVersion, match=r"MetadataRequest\.topics is None, which only versions 1\+ can say, not 0"
    ):
        encode(metadata.MetadataRequest(topics=None), 0)


def test_a_value_that_the_version_lacks_is_dropped_if_ignorable_and_refused_if_not() -> None:
    partition = produce.PartitionProduceResponse(log_append_time_ms=7)  # ignorable, versions 2+
    response = produce.ProduceResponse(responses=[produce.TopicProduceResponse(partition_responses=[partition])])
    again = decode(produce.ProduceResponse, 1, encode(response, 1))
    assert again.responses[0].partition_responses[0].log_append_time_ms == -1
    with pytest.raises(
        UnsupportedVersion, match=r"ProduceRequest\.transactional_id is 'x', which only versions 3\+ carry, not 2"
    ):
        encode(produce.ProduceRequest(transactional_id="x"), 2)


def test_records_are_views_of_the_frame() -> None:
    frame = encode(
        produce.ProduceRequest(
            topic_data=[
                produce.TopicProduceData(partition_data=[produce.PartitionProduceData(records=memoryview(b"abc"))])
            ]
        ),
        9,
    )
    records = decode(produce.ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
