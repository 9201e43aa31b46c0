"""AlterReplicaLogDirs (key 34): move logs between the data folders of the broker (KIP-113).

Versions 1 and 2 (0 before Kafka 4):

    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)

The response comes at once; DescribeLogDirs shows how far a move is (`is_future_key`). The move
itself is `log.log_mover`.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

VERSIONS = (0, 2)
ACCESS = (on_cluster(AclOperation.ALTER),)


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse | DelayedOperation[AlterReplicaLogDirsResponse]:
    """Begin the moves. Where a partition is named twice, its last folder counts, as in Kafka."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> SlicedWork[AlterReplicaLogDirsResponse]:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in _partitions(request).items():
        topic = results.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        code = ErrorCode.NONE
        try:
            context.broker.upkeep.moves.alter(name, index, path)
        except KqueueError as error:
            code = code_of(error)
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
        yield None
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _partitions(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    return {
        (topic.name, index): folder.path
        for folder in request.dirs
        for topic in folder.topics
        for index in topic.partitions
    }


def error_response(
    request: AlterReplicaLogDirsRequest, version: int, error: BaseException
) -> AlterReplicaLogDirsResponse:
    """Return `error` for every partition."""
    code = code_of(error)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for name, index in _partitions(request):
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
