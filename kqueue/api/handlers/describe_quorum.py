"""DescribeQuorum (key 55): the voters of the metadata log (KIP-595).

Versions 0 to 2:

    0       leader, epoch, high watermark, voters, observers
    1       times of the last fetch (KIP-836)
    2       directory ids, addresses, error messages (KIP-853)

kqueue's brokers hold no votes: they share a metadata store. The controller is shown as leader and
only voter, in the epoch of its term, the other brokers as observers; how far each of them has read
is not known here. Offsets count the changes of the store. A single broker is its own controller.
Addresses are those of the client's own listener. As in Kafka, a request must name partition 0 of
`__cluster_metadata` and nothing else.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.names import METADATA_TOPIC, parse_uuid
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    PartitionDataInRequest,
    PartitionDataInResponse,
    QuorumNode,
    ReplicaState,
    TopicDataInResponse,
)

VERSIONS = (0, 2)
ACCESS = (on_cluster(AclOperation.DESCRIBE),)
VERSION_NODES = 2
METADATA_PARTITION = 0
UNKNOWN = -1


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
    broker, cluster = context.broker, context.broker.metadata.cluster
    end_offset = broker.metadata.cache.end_offset
    states = [_state(one.id, one.id == cluster.controller_id, context) for one in cluster.all()]
    voters = [state for state in states if state.replica_id == cluster.controller_id]
    partition = PartitionDataInResponse(
        partition_index=METADATA_PARTITION,
        error_message=None,
        leader_id=cluster.controller_id,
        leader_epoch=broker.replicas.host.sole_replica.leader_epoch if cluster.is_alone else cluster.controller_epoch,
        high_watermark=end_offset,
        current_voters=voters,
        observers=[state for state in states if state not in voters],
    )
    response = DescribeQuorumResponse(
        error_message=None, topics=[TopicDataInResponse(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    if context.api_version >= VERSION_NODES:
        view = context.cluster_view()
        response.nodes = [
            QuorumNode(node_id=id, listeners=[Listener(name=context.listener, host=host, port=port)])
            for id, host, port, _ in sorted([*view.brokers.values(), *view.fenced.values()])
        ]
    return response


def _state(id: int, is_controller: bool, context: RequestContext) -> ReplicaState:
    broker = context.broker
    state = ReplicaState(replica_id=id, log_end_offset=UNKNOWN)
    if is_controller or id == broker.identity.node_id:
        now_ms = int(broker.scheduler.clock.wall_ms())
        state.log_end_offset = broker.metadata.cache.end_offset
        state.last_fetch_timestamp = state.last_caught_up_timestamp = now_ms
    if id == broker.identity.node_id and context.api_version >= VERSION_NODES:
        state.replica_directory_id = parse_uuid(broker.logs.directory_id)
    return state


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
