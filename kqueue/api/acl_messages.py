"""ACLs in messages: filters, and whether the broker has ACLs at all."""

from __future__ import annotations

from typing import Protocol

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import UnsupportedVersion
from kqueue.broker.access.acls import Acls
from kqueue.security.acls import AclFilter
from kqueue.security.errors import SecurityDisabled
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType, member

VERSION_PATTERN_TYPES = 1
"""Version of the three APIs from which messages have pattern types."""
ACLS_MAX = 10_000
"""ACLs, or filters, of one request; Kafka bounds the records of a change by it."""


class FilterFields(Protocol):
    """The fields that DescribeAcls and one filter of DeleteAcls share."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acls_of(context: RequestContext) -> Acls:
    """Return the broker's ACLs. Raises: SecurityDisabled: nothing is decided by them."""
    security = context.broker.security
    if security.authorizer is None:
        raise SecurityDisabled("no authorizer is configured: set authorizer.class.name")
    if not getattr(security.authorizer, "uses_acls", False):
        raise SecurityDisabled("the authorizer of authorizer.class.name does not use ACLs")
    return security.acls


def filter_of(fields: FilterFields, api_version: int) -> AclFilter:
    """Return a filter. Raises: UnsupportedVersion: no literal pattern, but version 0."""
    pattern_type = member(PatternType, fields.pattern_type_filter)
    if api_version < VERSION_PATTERN_TYPES and pattern_type is not PatternType.LITERAL:
        raise UnsupportedVersion("version 0 has literal patterns only")
    return AclFilter(
        member(ResourceType, fields.resource_type_filter),
        fields.resource_name_filter,
        pattern_type,
        fields.principal_filter,
        fields.host_filter,
        member(AclOperation, fields.operation),
        member(AclPermission, fields.permission_type),
    )
