"""DescribeAcls (key 29): find access rules.

Versions 0 to 3:

    0       literal patterns
    1       prefixed patterns, and filters ANY and MATCH (KIP-290)
    2       flexible encoding
    3       users as resources (KIP-373)

Source: Kafka's AclApis.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.acl_messages import acls_of, filter_of
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.acls import check_filter
from kqueue.security.operations import AclOperation, PatternType, ResourceType
from kqueue.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

VERSIONS = (0, 3)
ACCESS = (on_cluster(AclOperation.DESCRIBE),)


def handle(
    request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse | DelayedOperation[DescribeAclsResponse]:
    """Respond with what the filter finds, by pattern."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: DescribeAclsRequest, context: RequestContext) -> SlicedWork[DescribeAclsResponse]:
    acls = acls_of(context)
    acl_filter = filter_of(request, context.api_version)
    check_filter(acl_filter)
    patterns: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    for binding in (yield from acls.find(acl_filter)):
        pattern = (binding.resource_type, binding.name, binding.pattern_type)
        patterns.setdefault(pattern, []).append(
            AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
        )
        yield None
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource_type=type_, resource_name=name, pattern_type=pattern_type, acls=rows)
            for (type_, name, pattern_type), rows in patterns.items()
            if context.api_version > 0 or pattern_type is PatternType.LITERAL
        ],
    )


def error_response(request: DescribeAclsRequest, version: int, error: BaseException) -> DescribeAclsResponse:
    """Return `error` for the whole request."""
    return DescribeAclsResponse(error_code=code_of(error), error_message=message_of(error))
