"""Asks a leader where its log starts and ends.

For a follower whose log lies outside of it the end is the log end: it copies beyond the high
watermark. For others it is the high watermark. Source: Kafka's RemoteLeaderEndPoint,
PartitionMetadataClient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.errors import KqueueError, NotLeader
from kqueue.broker.replicas.partition import Partition
from kqueue.interbroker.contract import PeerError, Peers
from kqueue.interbroker.errors import BadPeerResponse
from kqueue.interbroker.response_errors import error_of
from kqueue.replication.registrations import NO_LEADER
from kqueue.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER = -1
LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
EARLIEST_PENDING_UPLOAD = -6
TIMEOUT_MS = 30_000.0


class LeaderOffsets(NamedTuple):
    """The start and the end of a leader's log."""

    start: int
    end: int


def ask_leader_offsets(
    peers: Peers,
    node_id: int,
    leader: int,
    partition: Partition,
    leader_epoch: int,
    done: Callable[[LeaderOffsets | KqueueError], None],
) -> None:
    """Ask broker `leader` on behalf of the follower `node_id`.

    `done` is called once, with an error if the leader is not reached, leads in another epoch, or
    refuses.
    """

    def ask(timestamp: int, use_offset: Callable[[int], None]) -> None:
        row = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=timestamp
        )

        def answered(offset: int | KqueueError) -> None:
            use_offset(offset) if isinstance(offset, int) else done(offset)

        _ask(peers, node_id, leader, partition, row, answered)

    # the start is asked last: it moves on while records are deleted
    ask(LATEST, lambda end: ask(EARLIEST, lambda start: done(LeaderOffsets(start, max(start, end)))))


def ask_local_start(
    peers: Peers,
    node_id: int,
    leader: int,
    partition: Partition,
    leader_epoch: int,
    done: Callable[[int | KqueueError], None],
    *,
    skips_tiered: bool = False,
) -> None:
    """Ask broker `leader` where its local log starts, on behalf of the follower `node_id`.

    Args: skips_tiered: for the first offset that is not in the tier, in place of it; where the
        leader does not know that yet, `done` gets its local start.
    """

    def ask(timestamp: int, answered: Callable[[int | KqueueError], None]) -> None:
        row = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        _ask(peers, node_id, leader, partition, row, answered)

    if not skips_tiered:
        ask(EARLIEST_LOCAL, done)
        return
    ask(
        EARLIEST_PENDING_UPLOAD,
        lambda offset: ask(EARLIEST_LOCAL, done) if isinstance(offset, BadPeerResponse) else done(offset),
    )


def ask_high_watermark(peers: Peers, partition: Partition, done: Callable[[int | KqueueError], None]) -> None:
    """Ask the partition's leader, another broker, for its high watermark; `done` is called later.

    Raises: NotLeader: nobody leads.
    """
    if partition.leader == NO_LEADER:
        raise NotLeader(f"no broker leads {partition.topic}-{partition.index}")
    row = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=partition.leader_epoch, timestamp=LATEST
    )
    _ask(peers, CONSUMER, partition.leader, partition, row, done)


def _ask(
    peers: Peers,
    node_id: int,
    leader: int,
    partition: Partition,
    row: ListOffsetsPartition,
    done: Callable[[int | KqueueError], None],
) -> None:
    request = ListOffsetsRequest(
        replica_id=node_id, isolation_level=0, topics=[ListOffsetsTopic(name=partition.topic, partitions=[row])]
    )
    what = f"broker {leader}, offsets of {partition.topic}-{partition.index}"
    peers.send(leader, request, lambda response: done(_offset_in(response, what)), timeout_ms=TIMEOUT_MS)


def _offset_in(response: ListOffsetsResponse | PeerError, what: str) -> int | KqueueError:
    if isinstance(response, PeerError):
        return response
    rows = [row for topic in response.topics for row in topic.partitions]
    if len(rows) != 1:
        return BadPeerResponse(f"{what}: expected one partition, found {len(rows)}")
    error = error_of(rows[0].error_code, what)
    if error is None and rows[0].offset < 0:
        return BadPeerResponse(f"{what}: expected an offset, found {rows[0].offset}")
    return error or rows[0].offset
