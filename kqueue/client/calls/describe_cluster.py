"""DescribeCluster: the brokers of a cluster, and which of them are fenced."""

from __future__ import annotations

from dataclasses import dataclass

from kqueue.client.metadata import BrokerEndpoint
from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

VERSION_FENCED = 2


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster, by id.

    `controller`: -1 without one. `fenced`: those that lead nothing; brokers before Kafka 4.1 name
    none.
    """

    cluster_id: str
    controller: int
    brokers: dict[int, BrokerEndpoint]
    fenced: frozenset[int]


class DescribeCluster:
    """DescribeCluster with fenced brokers."""

    api = BY_MODULE["describe_cluster"]
    versions = (0, 2)
    repeatable = True

    def request(self, version: int) -> DescribeClusterRequest:
        return DescribeClusterRequest(include_fenced_brokers=version >= VERSION_FENCED)

    def result(self, version: int, response: DescribeClusterResponse, broker: str) -> ClusterDescription:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        rows = sorted(response.brokers, key=lambda row: row.broker_id)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            {row.broker_id: BrokerEndpoint(row.broker_id, row.host, row.port, row.rack) for row in rows},
            frozenset(row.broker_id for row in rows if row.is_fenced),
        )
