from __future__ import annotations

from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_cluster import DescribeClusterRequest


@for_each("version", versions_of("describe_cluster"))
def test_returns_the_cluster_and_its_one_broker(version: int) -> None:
    client = SimulatedClient({"node.id": 7, "broker.rack": "shelf"})
    client.sim.broker.identity.endpoints = lambda listener: (f"host-of-{listener}", 1234)
    response = client.ask(DescribeClusterRequest(), version, listener="INSIDE")
    assert (response.error_code, response.error_message) == (0, None)
    assert response.cluster_id == client.sim.broker.identity.cluster_id
    assert response.controller_id == 7
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced) == (
        7,
        "host-of-INSIDE",
        1234,
        "shelf",
        False,
    )
    assert response.cluster_authorized_operations == -(2**31)


def test_returns_authorized_operations_on_request() -> None:
    response = SimulatedClient().ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert response.cluster_authorized_operations == 8096


@for_each("kind, code", [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)])
def test_other_endpoints_than_brokers_are_refused(kind: int, code: ErrorCode) -> None:
    response = SimulatedClient().ask(DescribeClusterRequest(endpoint_type=kind), 1)
    assert response.error_code == code
    assert response.error_message
    assert response.brokers == []
