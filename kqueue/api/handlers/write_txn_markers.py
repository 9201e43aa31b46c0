"""WriteTxnMarkers (key 27): append end markers of transactions to partitions.

The coordinator of this broker appends its markers without a request. Tools send this one, to abort
a transaction that its coordinator does not know any more (a hanging transaction). Versions 0 to 2:

    0       producer, result and partitions of each marker (KIP-98)
    1       flexible encoding (KIP-482)
    2       transaction version, which says how epochs are compared (KIP-1228)
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.transactions.marker_writer import MarkerResults, TransactionMarker
from kqueue.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSIONS = (0, 2)
ACCESS = (on_each(AclOperation.ALTER, ResourceType.CLUSTER, "for the whole request; or CLUSTER_ACTION"),)
TIMEOUT_MS = 30_000
"""Longest wait for the commit of the markers; the request has no timeout of its own."""


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | DelayedOperation[WriteTxnMarkersResponse]:
    """Respond when each marker is committed or refused; a late one may still be appended."""
    if not context.allows(AclOperation.ALTER, ResourceType.CLUSTER):
        context.require(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: WriteTxnMarkersRequest, version: int, error: BaseException) -> WriteTxnMarkersResponse:
    """Return `error` for every partition."""
    builder = _ResponseBuilder()
    for marker in request.markers:
        for _ in builder.fail(marker, error):
            pass
    return builder.response


def _handle_sliced(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> SlicedWork[WriteTxnMarkersResponse | DelayedOperation[WriteTxnMarkersResponse]]:
    promises: list[Promise[MarkerResults]] = []
    for marker in request.markers:
        promises.append(_write(marker, context))
        yield None

    def respond() -> WriteTxnMarkersResponse | DelayedOperation[WriteTxnMarkersResponse]:
        return in_slices(context, _respond(request.markers, promises))

    return wait_for_all(tuple(promises), respond, context.deadline_ms(TIMEOUT_MS))


def _write(marker: WritableTxnMarker, context: RequestContext) -> Promise[MarkerResults]:
    broker = context.broker
    promise: Promise[MarkerResults] = Promise()
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        promise.fail(InvalidRequest(f"expected a producer, found {marker.producer_id}, {marker.producer_epoch}"))
        return promise

    def done(results: MarkerResults) -> None:
        promise.resolve(results)
        broker.scheduler.purgatory.wake(promise)

    partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    broker.coordinators.markers.write(
        TransactionMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            partitions=list(dict.fromkeys(partitions)),
        ),
        done,
    )
    return promise


def _respond(
    markers: list[WritableTxnMarker], promises: list[Promise[MarkerResults]]
) -> SlicedWork[WriteTxnMarkersResponse]:
    builder = _ResponseBuilder()
    for marker, promise in zip(markers, promises, strict=True):
        if not promise.done:
            yield from builder.fail(marker, RequestTimedOut("the marker was not committed in time"))
        elif promise.error is not None:
            yield from builder.fail(marker, promise.error)
        else:
            for (topic, index), error in promise.result().items():
                builder.add(marker.producer_id, topic, index, error)
                yield None
        builder.add_producer(marker.producer_id)
        yield None
    return builder.response


class _ResponseBuilder:
    """Builds the response: one entry per producer, and in it one per topic."""

    def __init__(self) -> None:
        self.response = WriteTxnMarkersResponse()
        self._producers: dict[int, WritableTxnMarkerResult] = {}
        self._topics: dict[tuple[int, str], WritableTxnMarkerTopicResult] = {}

    def add_producer(self, producer_id: int) -> WritableTxnMarkerResult:
        """Return the producer's entry, a new one if it has none."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = WritableTxnMarkerResult(producer_id=producer_id)
            self.response.markers.append(producer)
        return producer

    def add(self, producer_id: int, name: str, index: int, error: BaseException | None) -> None:
        """Add the result of one partition."""
        topic = self._topics.get((producer_id, name))
        if topic is None:
            topic = self._topics[producer_id, name] = WritableTxnMarkerTopicResult(name=name)
            self.add_producer(producer_id).topics.append(topic)
        topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code_of(error)))

    def fail(self, marker: WritableTxnMarker, error: BaseException) -> Iterator[None]:
        """Add `error` for all partitions of a marker, one per step."""
        for topic in marker.topics:
            for index in topic.partition_indexes:
                self.add(marker.producer_id, topic.name, index, error)
                yield None
