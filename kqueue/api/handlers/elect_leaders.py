"""ElectLeaders (key 43): have leaders of partitions elected (KIP-183).

Versions 0 to 2:

    0       the preferred leader of each partition
    1       unclean elections too (KIP-460); an error of the whole response
    2       flexible encoding (KIP-482)

The response comes when the elections are stored. A partition that has the leader gets
ELECTION_NOT_NEEDED; a request for all gets its topics without such partitions, as from Kafka. A
single broker leads every partition, but those whose log is offline.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.partition_outcomes import Started, change_all, rows_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.cluster.partition_changes import Election, Outcomes
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.security.operations import AclOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

VERSIONS = (0, 2)
ACCESS = (on_cluster(AclOperation.ALTER),)
VERSION_ERROR = 1
ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
LATE = "the leaders were not stored in time; they may still be elected"


def handle(
    request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | DelayedOperation[ElectLeadersResponse]:
    """Return of each partition whether its leader is elected, or why not."""
    if request.topic_partitions != [] and request.election_type not in ELECTIONS:
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


def _elect(
    request: ElectLeadersRequest, context: RequestContext
) -> SlicedWork[ElectLeadersResponse | DelayedOperation[ElectLeadersResponse]]:
    of_all = request.topic_partitions is None
    topics = request.topic_partitions
    if topics is None:
        topics = yield from collect(_all_of, context.broker.topics)
    election = ELECTIONS.get(request.election_type, Election.PREFERRED)

    def start(row: TopicPartitions) -> SlicedWork[Promise[Outcomes]]:
        return context.broker.replicas.changes.elect(row.topic, row.partitions, election)

    def build(row: TopicPartitions, outcome: Started) -> SlicedWork[ReplicaElectionResult]:
        results = yield from rows_of(row.partitions, outcome, LATE, _result)
        if of_all:
            results = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        return ReplicaElectionResult(topic=row.topic, partition_result=results)

    def respond(results: list[ReplicaElectionResult]) -> ElectLeadersResponse:
        return ElectLeadersResponse(replica_election_results=results)

    return (yield from change_all(context, topics, start, build, respond, request.timeout_ms))


def _all_of(topic: Topic) -> TopicPartitions:
    return TopicPartitions(topic=topic.name, partitions=list(range(len(topic.partitions))))


def _result(partition: int, error: BaseException | None) -> PartitionResult:
    return PartitionResult(partition_id=partition, error_code=code_of(error), error_message=message_of(error))
