"""Authorized operations: bit fields of what a client may do with a resource.

Bit n stands for Kafka's AclOperation n.
"""

from __future__ import annotations

from kqueue.api.request_context import RequestContext
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType

OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that a bit field covers, by kind of resource. Source: Kafka's AclEntry."""
NOT_REQUESTED = -(2**31)
"""The value in a response whose request did not ask."""


def to_bit_field(*operations: AclOperation) -> int:
    """Return the sum of the operations' bits."""
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS = {resource_type: to_bit_field(*operations) for resource_type, operations in OPERATIONS.items()}


def authorized_operations(
    context: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME, *, requested: bool = True
) -> int:
    """Return what the client may do with a resource; `NOT_REQUESTED` if it was not `requested`."""
    if not requested:
        return NOT_REQUESTED
    if context.broker.security.authorizer is None:
        return ALL_OPERATIONS[resource_type]
    return to_bit_field(*context.allowed_operations(OPERATIONS[resource_type], resource_type, name))


def cluster_operations(context: RequestContext, *, requested: bool) -> int:
    """Return what the client may do with the cluster: nothing if it may not describe it."""
    if requested and not context.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, requested=requested)
