"""Leader hints: who leads a partition that this broker refused, and where (KIP-951).

Clients go there at once, instead of asking for metadata first.
"""

from __future__ import annotations

from typing import Any

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.broker.replicas.partition import Partition
from kqueue.wire.error_codes import ErrorCode

LEADER_HINT_CODES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors of partitions that get a hint. Source: Kafka's KafkaApis."""


def add_leader_hint(context: RequestContext, partition: Partition, data: Any, response: Any, types: Any) -> None:
    """Set `data.current_leader`, and add the leader to `response.node_endpoints`, once.

    Args:
        data: the partition's part of the response.
        types: module of the message, which has classes of its own for both.
    """
    data.current_leader = types.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    leader = context.broker_address(partition.leader)
    if leader is not None and all(node.node_id != leader.id for node in response.node_endpoints):
        id, host, port, rack = leader
        response.node_endpoints.append(types.NodeEndpoint(node_id=id, host=host, port=port, rack=rack))


def add_share_leader_hint(
    context: RequestContext, key: tuple[bytes, int], error: BaseException | None, data: Any, response: Any, types: Any
) -> None:
    """`add_leader_hint` for a partition given by topic id and index, if `error` calls for one."""
    if error is None or code_of(error) not in LEADER_HINT_CODES:
        return
    topic = context.broker.topics.find_by_id(key[0])
    if topic is not None and 0 <= key[1] < len(topic.partitions):
        add_leader_hint(context, topic.partitions[key[1]], data, response, types)
