"""DeleteGroups (key 42): delete groups without members, with their offsets (KIP-229).

Responds when the deletions are in the log. Versions 0 to 2:

    0       groups by id
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

VERSIONS = (0, 2)
ACCESS = (on_each(AclOperation.DELETE, ResourceType.GROUP),)
ITEM_WEIGHT = 4
Outcome = Promise[None] | ErrorCode


def handle(
    request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | DelayedOperation[DeleteGroupsResponse]:
    """Respond when all deletions are stored, or after the commit timeout."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DeleteGroupsRequest, version: int, error: BaseException) -> DeleteGroupsResponse:
    """Return `error` for each group."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=code_of(error)) for group_id in request.groups_names
        ]
    )


def _handle_sliced(
    request: DeleteGroupsRequest, context: RequestContext
) -> SlicedWork[DeleteGroupsResponse | DelayedOperation[DeleteGroupsResponse]]:
    outcomes: dict[str, Outcome] = {}
    for group_id in dict.fromkeys(request.groups_names):
        outcomes[group_id] = _delete(group_id, context)
        yield None
    promises = tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Promise))
    deadline_ms = context.deadline_ms(context.broker.coordinators.groups.config.commit_timeout_ms)
    return wait_for_all(promises, lambda: in_slices(context, _respond(outcomes)), deadline_ms)


def _delete(group_id: str, context: RequestContext) -> Outcome:
    try:
        context.require(AclOperation.DELETE, ResourceType.GROUP, group_id)
        return context.broker.coordinators.groups.delete(group_id)
    except KqueueError as error:
        return code_of(error)


def _respond(outcomes: dict[str, Outcome]) -> SlicedWork[DeleteGroupsResponse]:
    results = yield from collect(
        lambda outcome: DeletableGroupResult(group_id=outcome[0], error_code=_code(outcome[1])), outcomes.items()
    )
    return DeleteGroupsResponse(results=results)


def _code(outcome: Outcome) -> ErrorCode:
    if isinstance(outcome, ErrorCode):
        return outcome
    return code_of(outcome.error) if outcome.done else ErrorCode.COORDINATOR_NOT_AVAILABLE
