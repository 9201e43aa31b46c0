from __future__ import annotations

import pytest

from kqueue.client import ShareOffset, TopicPartition
from kqueue.client.calls.share_group_offsets import DescribeShareOffsets
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


def response(*partitions: DescribeShareGroupOffsetsResponsePartition, error: int = 0) -> object:
    topic = DescribeShareGroupOffsetsResponseTopic(topic_name="t", topic_id=bytes(16), partitions=list(partitions))
    group = DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic], error_code=error)
    return DescribeShareGroupOffsetsResponse(groups=[group])


def test_offsets_that_are_unknown_are_none() -> None:
    answer = response(
        DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=4, lag=2),
        DescribeShareGroupOffsetsResponsePartition(partition_index=1, start_offset=-1, lag=-1),
    )
    assert DescribeShareOffsets("g").result(1, answer, "b:1") == {  # type: ignore[arg-type]
        TopicPartition("t", 0): ShareOffset(4, 2),
        TopicPartition("t", 1): ShareOffset(None, None),
    }


def test_errors_of_the_group_and_of_a_partition_are_raised() -> None:
    call = DescribeShareOffsets("g")
    with pytest.raises(BrokerRefused, match="group 'g': GROUP_ID_NOT_FOUND"):
        call.result(1, response(error=69), "b:1")  # type: ignore[arg-type]
    failed = DescribeShareGroupOffsetsResponsePartition(partition_index=3, error_code=3)
    with pytest.raises(BrokerRefused, match="t-3, group 'g': UNKNOWN_TOPIC_OR_PARTITION"):
        call.result(1, response(failed), "b:1")  # type: ignore[arg-type]
    with pytest.raises(BadAnswer, match="is not about group 'g'"):
        call.result(1, DescribeShareGroupOffsetsResponse(), "b:1")
