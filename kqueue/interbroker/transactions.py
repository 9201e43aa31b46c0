"""Transactions at other brokers: end markers by WriteTxnMarkers, partitions of a transaction by
AddPartitionsToTxn.

A marker whose request failed may have been written; the coordinator sends it again, and the second
one finds no open transaction. Source: KIP-98, KIP-890; Kafka's TransactionMarkerChannelManager,
AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from kqueue.base.errors import CoordinatorNotAvailable, KqueueError, NotLeader, OperationNotAttempted
from kqueue.base.promise import Promise
from kqueue.broker.metadata.brokers import Cluster
from kqueue.interbroker.batched_requests import BatchedRequests
from kqueue.interbroker.contract import Peers
from kqueue.interbroker.errors import PeerError
from kqueue.interbroker.response_errors import error_of
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kqueue.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS_MAX = 10_000
"""Partitions in one request, unless its first item has more."""
MISSING_CODE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class _Marker(NamedTuple):
    marker: TransactionMarker
    done: Callable[[MarkerResults], None]


class _Producer(NamedTuple):
    """The producer of a transaction, and the kind of request."""

    transactional_id: str
    producer_id: int
    epoch: int
    verify_only: bool


class _Addition(NamedTuple):
    producer: _Producer
    partitions: frozenset[TopicPartition]
    promise: Promise[None]


class PeerTransactions:
    """Implements `RemoteTransactions`. On the owner thread.

    Args: wake: called with a promise that is resolved or fails later.
    """

    def __init__(self, peers: Peers, cluster: Cluster, wake: Callable[[Promise[None]], None]) -> None:
        self._wake = wake
        self._markers: BatchedRequests[_Marker] = BatchedRequests(
            peers, cluster, _take_markers, _markers_request, self._markers_written, "markers"
        )
        self._additions: BatchedRequests[_Addition] = BatchedRequests(
            peers, cluster, _take_additions, _additions_request, self._added, "transactions"
        )

    def write_marker(self, node_id: int, marker: TransactionMarker, done: Callable[[MarkerResults], None]) -> None:
        """Have a broker append a marker; see `RemoteTransactions`."""
        self._markers.add(node_id, _Marker(marker, done))

    def add_partitions(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> Promise[None]:
        """Have a coordinator add or verify partitions; see `RemoteTransactions`."""
        promise: Promise[None] = Promise()
        producer = _Producer(transactional_id, producer_id, epoch, verify_only)
        self._additions.add(node_id, _Addition(producer, frozenset(partitions), promise))
        return promise

    def _markers_written(self, markers: list[_Marker], outcome: WriteTxnMarkersResponse | PeerError) -> None:
        if isinstance(outcome, PeerError):
            for each in markers:
                each.done(dict.fromkeys(each.marker.partitions, NotLeader(str(outcome))))
            return
        codes = {
            (producer.producer_id, topic.name, partition.partition_index): partition.error_code
            for producer in outcome.markers
            for topic in producer.topics
            for partition in topic.partitions
        }
        for marker, done in markers:
            results: MarkerResults = {}
            for topic_partition in marker.partitions:
                code = codes.get((marker.producer_id, *topic_partition), MISSING_CODE)
                what = "the end marker of {}-{}".format(*topic_partition)
                # Sent again to the leader of then. An unknown topic, too: the other broker may not
                # know a new one yet, and that it was deleted this broker's own metadata say.
                if code in _NOT_THERE:
                    results[topic_partition] = NotLeader(f"{what}: another broker leads the partition")
                else:
                    results[topic_partition] = error_of(code, what)
            done(results)

    def _added(self, additions: list[_Addition], outcome: AddPartitionsToTxnResponse | PeerError) -> None:
        failure: KqueueError | None = None
        codes: dict[tuple[str, str, int], int] = {}
        if isinstance(outcome, PeerError):
            failure = CoordinatorNotAvailable(str(outcome))
        elif outcome.error_code != ErrorCode.NONE:
            failure = error_of(outcome.error_code, "the coordinator of the transaction")
        else:
            codes = {
                (transaction.transactional_id, topic.name, partition.partition_index): partition.partition_error_code
                for transaction in outcome.results_by_transaction
                for topic in transaction.topic_results
                for partition in topic.results_by_partition
            }
        # Requests of several producers share one to the broker. Each has its own result; an error
        # of the whole request is everybody's.
        for producer, partitions, promise in additions:
            error = failure or _first_error(producer.transactional_id, partitions, codes)
            if isinstance(error, OperationNotAttempted):  # what shared the request was refused
                error = CoordinatorNotAvailable(str(error))
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(error)
            self._wake(promise)


def _first_error(
    transactional_id: str, partitions: Iterable[TopicPartition], codes: dict[tuple[str, str, int], int]
) -> KqueueError | None:
    """Return why partitions were refused: what one was refused for, before what others were not
    tried for.
    """
    error: KqueueError | None = None
    for topic, index in sorted(partitions):
        code = codes.get((transactional_id, topic, index), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        own_error = error_of(code, f"{topic}-{index} in the transaction of {transactional_id!r}")
        if own_error is not None and (error is None or isinstance(error, OperationNotAttempted)):
            error = own_error
    return error


def _topics(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _take_markers(queue: deque[_Marker]) -> list[_Marker]:
    """Take the first ones, one of each producer: the response names producers."""
    taken: dict[int, _Marker] = {}
    count = 0
    while queue and queue[0].marker.producer_id not in taken:
        count += len(queue[0].marker.partitions)
        if taken and count > PARTITIONS_MAX:
            break
        first = queue.popleft()
        taken[first.marker.producer_id] = first
    return list(taken.values())


def _markers_request(markers: list[_Marker]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in _topics(marker.partitions).items()
                ],
                coordinator_epoch=marker.coordinator_epoch or 0,  # never None in a cluster
                transaction_version=marker.transaction_version,
            )
            for marker, _ in markers
        ]
    )


def _take_additions(queue: deque[_Addition]) -> list[_Addition]:
    """Take the first ones, of each transactional id those that ask the same."""
    first = queue[0].producer
    producers = {first.transactional_id: first}
    taken: list[_Addition] = []
    count = 0
    while queue and producers.setdefault(queue[0].producer.transactional_id, queue[0].producer) == queue[0].producer:
        count += len(queue[0].partitions)
        if taken and count > PARTITIONS_MAX:
            break
        taken.append(queue.popleft())
    return taken


def _additions_request(additions: list[_Addition]) -> AddPartitionsToTxnRequest:
    partitions: dict[_Producer, set[TopicPartition]] = {}
    for each in additions:
        partitions.setdefault(each.producer, set()).update(each.partitions)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=producer.verify_only,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in _topics(sorted(wanted)).items()
                ],
            )
            for producer, wanted in partitions.items()
        ]
    )
