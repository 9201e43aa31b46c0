"""DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700).

Versions 0 to 2:

    0       cluster id, controller, brokers, authorized operations
    1       endpoint type: brokers or controllers (KIP-919)
    2       fenced brokers, if the request wants them (KIP-1073)

Brokers and controller are those of Metadata.

Not emulated: controller endpoints (MISMATCHED_ENDPOINT_TYPE).
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import cluster_operations
from kqueue.api.request_context import RequestContext
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

VERSIONS = (0, 2)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.CLUSTER, "for the authorized operations only: 0 without it"),)
ENDPOINT_BROKERS = 1
ENDPOINT_CONTROLLERS = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Return the brokers that have the client's listener."""
    if request.endpoint_type == ENDPOINT_CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint, not a controller's")
    if request.endpoint_type != ENDPOINT_BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type} is unknown")
    view = context.cluster_view()
    addresses = {**view.brokers, **view.fenced} if request.include_fenced_brokers else view.brokers
    return DescribeClusterResponse(
        cluster_id=context.broker.identity.cluster_id,
        controller_id=view.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=id, host=host, port=port, rack=rack, is_fenced=id in view.fenced)
            for id, host, port, rack in sorted(addresses.values())
        ],
        cluster_authorized_operations=cluster_operations(
            context, requested=request.include_cluster_authorized_operations
        ),
    )


def _refused(code: ErrorCode, words: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=words)
