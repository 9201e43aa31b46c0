"""DeleteAcls (key 31): remove the access rules that filters find.

Versions 0 to 3:

    0       literal patterns
    1       prefixed patterns, and filters ANY and MATCH (KIP-290)
    2       flexible encoding
    3       users as resources (KIP-373)

Each filter has its own result: what it found, or why it is invalid. Source: Kafka's AclApis,
AclControlManager.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.acl_messages import ACLS_MAX, acls_of, filter_of
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.acls import AclBinding, check_filter
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

VERSIONS = (0, 3)
ACCESS = (on_cluster(AclOperation.ALTER),)
ITEM_WEIGHT = 100
"""Each filter is compared with all ACLs."""
FILTERS_MAX = 100
TIMEOUT_MS = 30_000
"""Wait for the store; the request has no timeout of its own."""
LATE = "the ACLs were not deleted in time; they may still be"
Outcome = list[AclBinding] | KqueueError


def handle(
    request: DeleteAclsRequest, context: RequestContext
) -> DeleteAclsResponse | DelayedOperation[DeleteAclsResponse]:
    """Respond when all that the valid filters find is deleted."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: DeleteAclsRequest, context: RequestContext
) -> SlicedWork[DeleteAclsResponse | DelayedOperation[DeleteAclsResponse]]:
    acls = acls_of(context)
    if len(request.filters) > FILTERS_MAX:
        raise InvalidRequest(f"{len(request.filters)} filters in one request, at most {FILTERS_MAX} are taken")
    outcomes: list[Outcome] = []
    for fields in request.filters:
        try:
            acl_filter = filter_of(fields, context.api_version)
            check_filter(acl_filter)
        except KqueueError as error:
            outcomes.append(error)
        else:
            outcomes.append((yield from acls.find(acl_filter)))
    deleted = dict.fromkeys(binding for outcome in outcomes if isinstance(outcome, list) for binding in outcome)
    if len(deleted) > ACLS_MAX:
        raise InvalidRequest(f"the filters find {len(deleted)} ACLs, at most {ACLS_MAX} are deleted by one request")
    return wait_for(
        acls.delete(deleted),
        lambda stored: _respond(outcomes, error_of(stored, LATE)),
        context.change_deadline_ms(TIMEOUT_MS),
    )


def error_response(request: DeleteAclsRequest, version: int, error: BaseException) -> DeleteAclsResponse:
    """Return `error` for each filter."""
    return DeleteAclsResponse(filter_results=[_refused(error) for _ in request.filters])


def _respond(outcomes: list[Outcome], error: KqueueError | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_result(outcome, error) for outcome in outcomes])


def _result(outcome: Outcome, error: KqueueError | None) -> DeleteAclsFilterResult:
    if isinstance(outcome, KqueueError):
        return _refused(outcome)
    if error is not None and outcome:
        return _refused(error)
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(binding) for binding in outcome])


def _refused(error: BaseException) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code_of(error), error_message=message_of(error))


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
