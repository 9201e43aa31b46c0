from __future__ import annotations

import pytest

from kqueue.client.calls.metadata import GetMetadata
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def test_none_are_all_topics_and_an_empty_list_is_none() -> None:
    assert GetMetadata(None).request(13).topics is None
    assert GetMetadata([]).request(13).topics == []
    assert not GetMetadata(["t"]).request(13).allow_auto_topic_creation


def test_topics_with_an_error_are_apart() -> None:
    partitions = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in (1, 0)]
    topics = [MetadataResponseTopic(name="t", partitions=partitions), MetadataResponseTopic(name="u", error_code=3)]
    metadata = GetMetadata(None).result(13, MetadataResponse(topics=topics), "b:1")
    assert list(metadata.topics["t"].partitions) == [0, 1]
    assert (list(metadata.topics), metadata.failed) == (["t"], {"u": 3})
    with pytest.raises(BrokerRefused, match="Metadata: CLUSTER_AUTHORIZATION_FAILED"):
        GetMetadata(None).result(13, MetadataResponse(error_code=31), "b:1")
