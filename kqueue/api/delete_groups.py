"""DeleteGroups: groups without members go, and their offsets with them; answered when that is in the log."""

from __future__ import annotations

from kqueue.api.call import Call, wait_for_all
from kqueue.api.errors import ErrorCode, code_of
from kqueue.base.errors import KqueueError
from kqueue.base.tickets import Ticket
from kqueue.broker.waiting import Wait
from kqueue.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

VERSIONS = (0, 2)
Answer = Ticket[None] | KqueueError


def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse | Wait[DeleteGroupsResponse]:
    answers = {group_id: _delete(group_id, call) for group_id in dict.fromkeys(request.groups_names)}
    tickets = tuple(answer for answer in answers.values() if isinstance(answer, Ticket))
    return wait_for_all(tickets, lambda: _respond(answers), call.deadline_ms(call.broker.groups.config.commit_timeout_ms))


def refuse(request: DeleteGroupsRequest, version: int, error: BaseException) -> DeleteGroupsResponse:
    """The error in place of each group's result."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=code_of(error)) for group_id in request.groups_names]
    )


def _delete(group_id: str, call: Call) -> Answer:
    try:
        return call.broker.groups.delete(group_id)
    except KqueueError as error:
        return error


def _respond(answers: dict[str, Answer]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=_code(answer)) for group_id, answer in answers.items()]
    )


def _code(answer: Answer) -> ErrorCode:
    if isinstance(answer, KqueueError):
        return code_of(answer)
    return code_of(answer.error) if answer.done else ErrorCode.COORDINATOR_NOT_AVAILABLE
