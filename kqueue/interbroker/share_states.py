"""States of share partitions at other brokers' share coordinators (KIP-932).

Source: Kafka's PersisterStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kqueue.base.errors import CoordinatorNotAvailable, InvalidRequest, KqueueError
from kqueue.broker.metadata.brokers import Cluster
from kqueue.interbroker.batched_requests import BatchedRequests
from kqueue.interbroker.contract import Peers
from kqueue.interbroker.errors import PeerError
from kqueue.interbroker.response_errors import error_of
from kqueue.share.coordinator import ReadDone
from kqueue.share.record_state import RecordState
from kqueue.share.share_state import NO_OFFSET, UNCHANGED, SharePartitionKey, ShareState, ShareUpdate
from kqueue.share.state_batches import StateBatch
from kqueue.share.state_log import Done
from kqueue.wire.messages import delete_share_group_state as deletes
from kqueue.wire.messages import initialize_share_group_state as initializes
from kqueue.wire.messages import read_share_group_state as reads
from kqueue.wire.messages import read_share_group_state_summary as summaries
from kqueue.wire.messages import write_share_group_state as writes

PARTITIONS_MAX = 1000
"""Share partitions in one request."""
BATCHES_MAX = 50_000
"""State batches in one request, unless its first share partition has more."""


class _Item(NamedTuple):
    """A request's part for one share partition. `partition`: its struct of the request."""

    key: SharePartitionKey
    partition: Any
    done: Callable[[Any], None]


class _Requests:
    """The requests of one kind.

    Args: build: returns a request for a group's topics: id -> structs of partitions.
        state_of: returns what a result without error says.
    """

    def __init__(
        self,
        peers: Peers,
        cluster: Cluster,
        build: Callable[[str, dict[bytes, list[Any]]], object],
        state_of: Callable[[Any], ShareState | None] = lambda result: None,
    ) -> None:
        self._build = build
        self._state_of = state_of
        self._requests: BatchedRequests[_Item] = BatchedRequests(
            peers, cluster, _take, self._request, self._answered, "share-states"
        )

    def add(self, node_id: int, key: SharePartitionKey, partition: Any, done: Callable[[Any], None]) -> None:
        """Ask one question."""
        self._requests.add(node_id, _Item(key, partition, done))

    def _request(self, items: list[_Item]) -> object:
        topics: dict[bytes, list[Any]] = {}
        for key, partition, _ in items:
            topics.setdefault(key.topic_id, []).append(partition)
        return self._build(items[0].key.group, topics)

    def _answered(self, items: list[_Item], outcome: Any) -> None:
        if isinstance(outcome, PeerError):
            for item in items:
                item.done(CoordinatorNotAvailable(str(outcome)))
            return
        results = {
            (bytes(topic.topic_id), result.partition): result
            for topic in outcome.results
            for result in topic.partitions
        }
        outcomes = [self._outcome(item.key, results.get((item.key.topic_id, item.key.partition))) for item in items]
        for item, result in zip(items, outcomes, strict=True):
            item.done(result)

    def _outcome(self, key: SharePartitionKey, result: Any) -> ShareState | KqueueError | None:
        if result is None:
            return CoordinatorNotAvailable(f"the coordinator of {key.coordinator_key} did not answer")
        error = error_of(result.error_code, f"share partition {key.coordinator_key}: {result.error_message}")
        if error is not None:
            return error
        try:
            return self._state_of(result)
        except ValueError as damaged:
            return CoordinatorNotAvailable(f"the coordinator of {key.coordinator_key} answered {damaged}")


def _take(queue: deque[_Item]) -> list[_Item]:
    """Take the first ones of one group, each share partition once."""
    taken: dict[SharePartitionKey, _Item] = {}
    group, count = queue[0].key.group, 0
    while queue and queue[0].key.group == group and queue[0].key not in taken and len(taken) < PARTITIONS_MAX:
        count += len(getattr(queue[0].partition, "state_batches", ()))
        if taken and count > BATCHES_MAX:
            break
        first = queue.popleft()
        taken[first.key] = first
    return list(taken.values())


class PeerShareStates:
    """Implements `RemoteShareStates`. On the owner thread."""

    def __init__(self, peers: Peers, cluster: Cluster) -> None:
        self._reads = _Requests(peers, cluster, _read_request, _read_state)
        self._summaries = _Requests(peers, cluster, _summary_request, _summary_state)
        self._initializes = _Requests(peers, cluster, _initialize_request)
        self._writes = _Requests(peers, cluster, _write_request)
        self._deletes = _Requests(peers, cluster, _delete_request)

    def read(self, node_id: int, key: SharePartitionKey, leader_epoch: int, done: ReadDone) -> None:
        """Read a state; see `RemoteShareStates`."""

        def answered(state: ShareState | KqueueError | None) -> None:
            # what there is no state for can't be read. Source: Kafka's ShareCoordinatorShard
            done(None if isinstance(state, InvalidRequest) else state)

        self._reads.add(node_id, key, reads.PartitionData(partition=key.partition, leader_epoch=leader_epoch), answered)

    def read_summary(self, node_id: int, key: SharePartitionKey, done: ReadDone) -> None:
        """Read a state without its batches."""
        partition = summaries.PartitionData(partition=key.partition, leader_epoch=UNCHANGED)
        self._summaries.add(node_id, key, partition, done)

    def initialize(self, node_id: int, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin, or reset, a share partition."""
        partition = initializes.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        self._initializes.add(node_id, key, partition, done)

    def write(self, node_id: int, key: SharePartitionKey, state_epoch: int, update: ShareUpdate, done: Done) -> None:
        """Change a share partition."""
        partition = writes.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=[
                writes.StateBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    delivery_state=int(batch.state),
                    delivery_count=batch.delivery_count,
                )
                for batch in update.batches
            ],
        )
        self._writes.add(node_id, key, partition, done)

    def delete(self, node_id: int, key: SharePartitionKey, done: Done) -> None:
        """Forget a share partition."""
        self._deletes.add(node_id, key, deletes.PartitionData(partition=key.partition), done)


def _topics(data: type[Any], topics: dict[bytes, list[Any]]) -> list[Any]:
    return [data(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def _read_request(group: str, topics: dict[bytes, list[Any]]) -> object:
    return reads.ReadShareGroupStateRequest(group_id=group, topics=_topics(reads.ReadStateData, topics))


def _summary_request(group: str, topics: dict[bytes, list[Any]]) -> object:
    return summaries.ReadShareGroupStateSummaryRequest(
        group_id=group, topics=_topics(summaries.ReadStateSummaryData, topics)
    )


def _initialize_request(group: str, topics: dict[bytes, list[Any]]) -> object:
    return initializes.InitializeShareGroupStateRequest(
        group_id=group, topics=_topics(initializes.InitializeStateData, topics)
    )


def _write_request(group: str, topics: dict[bytes, list[Any]]) -> object:
    return writes.WriteShareGroupStateRequest(group_id=group, topics=_topics(writes.WriteStateData, topics))


def _delete_request(group: str, topics: dict[bytes, list[Any]]) -> object:
    return deletes.DeleteShareGroupStateRequest(group_id=group, topics=_topics(deletes.DeleteStateData, topics))


def _read_state(result: reads.PartitionResult) -> ShareState:
    return ShareState(result.start_offset, _batches(result.state_batches), state_epoch=result.state_epoch)


def _summary_state(result: summaries.PartitionResult) -> ShareState | None:
    if result.start_offset == NO_OFFSET:
        return None
    return ShareState(
        result.start_offset,
        (),
        result.delivery_complete_count,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
    )


def _batches(batches: Iterable[reads.StateBatch]) -> Sequence[StateBatch]:
    return [
        StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
        for batch in batches
    ]
