"""Operations, kinds of resources and patterns of access control, with Kafka's numbers.

Source: Kafka's AclOperation, AclPermissionType, ResourceType, PatternType.
"""

from __future__ import annotations

import enum
from typing import TypeVar

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD = "*"
"""As the name of a LITERAL pattern: every resource of the type."""


class AclOperation(enum.IntEnum):
    """An operation on a resource. ANY only filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(enum.IntEnum):
    """The effects of an entry. ANY only filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourceType(enum.IntEnum):
    """The kinds of resource. ANY only filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """The ways to compare the name of an entry. ANY and MATCH only filter."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


E = TypeVar("E", AclOperation, AclPermission, ResourceType, PatternType)


def member(kind: type[E], number: int) -> E:
    """Return the member of this number, UNKNOWN (0) for any that is not known."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


IMPLIED_BY: dict[AclOperation, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Operations whose permission also allows the key. A denial implies nothing."""
