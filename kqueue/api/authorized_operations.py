"""Authorized operations: bit fields of what a client may do with a resource.

Bit n stands for Kafka's AclOperation n.
"""

from __future__ import annotations

from kqueue.security.operations import AclOperation


def to_bit_field(*operations: AclOperation) -> int:
    """Return the sum of the operations' bits."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = to_bit_field(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = to_bit_field(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = to_bit_field(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
NOT_REQUESTED = -(2**31)
"""The value in a response whose request did not ask."""
