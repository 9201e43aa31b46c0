"""ElectLeaders (key 43): have leaders of partitions elected (KIP-183).

Versions 0 to 2:

    0       the preferred leader of each partition
    1       unclean elections too (KIP-460); an error of the whole response
    2       flexible encoding (KIP-482)

This broker leads every partition, so no election is needed: each partition named gets
ELECTION_NOT_NEEDED, and a request for all gets its topics without partitions, as from Kafka. A
partition whose log is offline has no replica that could lead.
"""

from __future__ import annotations

from kqueue.api.errors import CodedError, code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

VERSIONS = (0, 2)
VERSION_ERROR = 1
PREFERRED = 0
UNCLEAN = 1
NO_LEADER_CODES = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def handle(
    request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | DelayedOperation[ElectLeadersResponse]:
    """Return why no partition gets another leader."""
    if request.topic_partitions != [] and request.election_type not in NO_LEADER_CODES:
        raise InvalidRequest(f"election type {request.election_type} is unknown")
    return in_slices(context, _elect(request, context))


def error_response(request: ElectLeadersRequest, version: int, error: BaseException) -> ElectLeadersResponse:
    """Return `error` for the whole request, and for every partition: version 0 has only these."""
    results = [
        ReplicaElectionResult(
            topic=row.topic, partition_result=[_result(partition, error) for partition in row.partitions]
        )
        for row in request.topic_partitions or ()
    ]
    if version < VERSION_ERROR:
        return ElectLeadersResponse(replica_election_results=results)
    return ElectLeadersResponse(error_code=code_of(error), replica_election_results=results)


def _elect(request: ElectLeadersRequest, context: RequestContext) -> SlicedWork[ElectLeadersResponse]:
    response = ElectLeadersResponse()
    if request.topic_partitions is None:
        response.replica_election_results = yield from collect(
            lambda topic: ReplicaElectionResult(topic=topic.name), context.broker.topics
        )
        return response
    for row in request.topic_partitions:
        result = ReplicaElectionResult(topic=row.topic)
        for index in row.partitions:
            result.partition_result.append(_result(index, _reason(row.topic, index, request.election_type, context)))
            yield None
        response.replica_election_results.append(result)
        yield None
    return response


def _reason(topic: str, index: int, election_type: int, context: RequestContext) -> KqueueError:
    try:
        partition = context.broker.topics.partition(topic, index)
    except KqueueError as error:
        return error
    if partition.is_offline:
        return CodedError(NO_LEADER_CODES[election_type], f"the log of {topic}-{index} is offline")
    return CodedError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads {topic}-{index}")


def _result(partition: int, error: BaseException) -> PartitionResult:
    return PartitionResult(partition_id=partition, error_code=code_of(error), error_message=message_of(error))
