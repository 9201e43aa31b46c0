from __future__ import annotations

import pytest

from kqueue.client.calls.describe_cluster import ClusterDescription, DescribeCluster
from kqueue.client.errors import BrokerRefused
from kqueue.client.metadata import BrokerEndpoint
from kqueue.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse


def test_fenced_brokers_are_asked_for_where_the_version_can() -> None:
    assert DescribeCluster().request(2).include_fenced_brokers
    assert not DescribeCluster().request(1).include_fenced_brokers


def test_brokers_are_returned_by_id_and_an_error_is_raised() -> None:
    rows = [
        DescribeClusterBroker(broker_id=2, host="b", port=2, rack="r", is_fenced=True),
        DescribeClusterBroker(broker_id=1, host="a", port=1),
    ]
    response = DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=rows)
    nodes = {1: BrokerEndpoint(1, "a", 1), 2: BrokerEndpoint(2, "b", 2, "r")}
    assert DescribeCluster().result(2, response, "b:1") == ClusterDescription("c", 1, nodes, frozenset({2}))
    with pytest.raises(BrokerRefused, match="not here"):
        DescribeCluster().result(2, DescribeClusterResponse(error_code=114, error_message="not here"), "b:1")
