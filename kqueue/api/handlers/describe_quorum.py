"""DescribeQuorum (key 55): the voters of the metadata log (KIP-595).

Versions 0 to 2:

    0       leader, epoch, high watermark, voters, observers
    1       times of the last fetch (KIP-836)
    2       directory ids, addresses, error messages (KIP-853)

The metadata store has one writer, this broker: it leads, votes, and has all changes. Offsets count
the changes of the store. The address is that of the client's own listener. As in Kafka, a request
must name partition 0 of `__cluster_metadata` and nothing else.
"""

from __future__ import annotations

from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.names import METADATA_TOPIC, parse_uuid
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataInRequest,
    PartitionDataInResponse,
    ReplicaState,
    TopicDataInResponse,
)

VERSIONS = (0, 2)
VERSION_NODES = 2
METADATA_PARTITION = 0


def handle(
    request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse | DelayedOperation[DescribeQuorumResponse]:
    """Describe the quorum, or refuse each partition if the request names any other."""
    if [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics[:2]] != [
        (METADATA_TOPIC, [METADATA_PARTITION])
    ]:
        return in_slices(context, _refuse(request))
    return _describe(context)


def _describe(context: RequestContext) -> DescribeQuorumResponse:
    broker = context.broker
    now_ms = int(broker.clock.wall_ms())
    end_offset = broker.metadata.end_offset
    voter = ReplicaState(
        replica_id=broker.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = PartitionDataInResponse(
        partition_index=METADATA_PARTITION,
        error_message=None,
        leader_id=broker.node_id,
        leader_epoch=broker.leader_epoch,
        high_watermark=end_offset,
        current_voters=[voter],
    )
    response = DescribeQuorumResponse(
        error_message=None, topics=[TopicDataInResponse(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    if context.api_version >= VERSION_NODES:
        voter.replica_directory_id = parse_uuid(broker.logs.directory_id)
        host, port = context.endpoint()
        listener = Listener(name=context.listener, host=host, port=port)
        response.nodes = [Node(node_id=broker.node_id, listeners=[listener])]
    return response


def _refuse(request: DescribeQuorumRequest) -> SlicedWork[DescribeQuorumResponse]:
    topics = []
    for topic in request.topics:
        partitions = yield from collect(_refused, topic.partitions)
        topics.append(TopicDataInResponse(topic_name=topic.topic_name, partitions=partitions))
        yield None
    return DescribeQuorumResponse(error_message=None, topics=topics)


def _refused(requested: PartitionDataInRequest) -> PartitionDataInResponse:
    error = UnknownTopicOrPartition(f"only {METADATA_TOPIC}-{METADATA_PARTITION} has a quorum")
    return PartitionDataInResponse(
        partition_index=requested.partition_index, error_code=code_of(error), error_message=message_of(error)
    )
