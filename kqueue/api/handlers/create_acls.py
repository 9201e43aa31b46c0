"""CreateAcls (key 30): store access rules.

Versions 0 to 3:

    0       literal patterns
    1       prefixed patterns (KIP-290)
    2       flexible encoding
    3       users as resources (KIP-373)

An ACL that is invalid is refused alone; the others are stored. One that is stored already is no
error. Source: Kafka's AclApis, AclControlManager.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.acl_messages import ACLS_MAX, acls_of
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.access.acls import stored_form
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.acls import AclBinding, check_binding
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType, member
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

VERSIONS = (0, 3)
ACCESS = (on_cluster(AclOperation.ALTER),)
ITEM_WEIGHT = 10
"""Each is checked, hashed and stored."""
TIMEOUT_MS = 30_000
"""Wait for the store; the request has no timeout of its own."""
LATE = "the ACLs were not stored in time; they may still be"


def handle(
    request: CreateAclsRequest, context: RequestContext
) -> CreateAclsResponse | DelayedOperation[CreateAclsResponse]:
    """Respond when the valid ACLs are stored."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: CreateAclsRequest, context: RequestContext
) -> SlicedWork[CreateAclsResponse | DelayedOperation[CreateAclsResponse]]:
    acls = acls_of(context)
    if len(request.creations) > ACLS_MAX:
        raise InvalidRequest(f"{len(request.creations)} ACLs in one request, at most {ACLS_MAX} are taken")
    refusals: list[KqueueError | None] = []
    entries: dict[str, bytes] = {}
    for row in request.creations:
        binding = _binding(row)
        try:
            check_binding(binding)
        except InvalidRequest as error:
            refusals.append(error)
        else:
            refusals.append(None)
            entries |= stored_form(binding)
        yield None
    return wait_for(
        acls.store(entries),
        lambda stored: _respond(refusals, error_of(stored, LATE)),
        context.change_deadline_ms(TIMEOUT_MS),
    )


def error_response(request: CreateAclsRequest, version: int, error: BaseException) -> CreateAclsResponse:
    """Return `error` for each ACL."""
    return CreateAclsResponse(results=[_result(error) for _ in request.creations])


def _binding(row: AclCreation) -> AclBinding:
    return AclBinding(
        member(ResourceType, row.resource_type),
        row.resource_name,
        member(PatternType, row.resource_pattern_type),
        row.principal,
        row.host,
        member(AclOperation, row.operation),
        member(AclPermission, row.permission_type),
    )


def _respond(refusals: list[KqueueError | None], error: KqueueError | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(refusal or error) for refusal in refusals])


def _result(error: BaseException | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_code=ErrorCode.NONE, error_message=None)
    return AclCreationResult(error_code=code_of(error), error_message=message_of(error))
