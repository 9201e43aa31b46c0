"""DeleteTopics: each topic of the request succeeds or fails for itself."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kqueue.api.call import Call, error_of, wait_for_all
from kqueue.api.errors import code_of, message_of
from kqueue.base.errors import InvalidRequest, KqueueError, TopicDeletionDisabled
from kqueue.base.names import UUID_ZERO
from kqueue.base.tickets import Ticket
from kqueue.broker.waiting import Wait
from kqueue.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

VERSIONS = (0, 6)
VERSION_IDS = 6
VERSION_DELETION_DISABLED = 3  # older clients do not know the code
LATE = "the deletion was not stored in time; it may still happen"


class Named(NamedTuple):
    """A topic as the request names it: by name, by id (then `name` is None until it is found), or wrongly by both or neither."""

    name: str | None
    id: bytes


Outcome = tuple[Named, Ticket[None] | KqueueError]


def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse | Wait[DeleteTopicsResponse]:
    """Answered when all deletions are stored, or when `timeout_ms` is over: what is then still under way may yet be deleted."""
    asked = _asked(request, call.api_version)
    counts = Counter(asked)
    outcomes = [_delete(one, call, once=counts[one] == 1) for one in counts]
    tickets = tuple(what for _, what in outcomes if isinstance(what, Ticket))
    return wait_for_all(tickets, lambda: _respond(outcomes), call.deadline_ms(request.timeout_ms))


def refuse(request: DeleteTopicsRequest, version: int, error: BaseException) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_result(named, error) for named in dict.fromkeys(_asked(request, version))])


def _asked(request: DeleteTopicsRequest, version: int) -> list[Named]:
    states = request.topics if version >= VERSION_IDS else [DeleteTopicState(name=name) for name in request.topic_names]
    return [Named(state.name, state.topic_id) for state in states]


def _delete(named: Named, call: Call, *, once: bool) -> Outcome:
    topics = call.broker.topics
    try:
        if not once:
            raise InvalidRequest("the topic stands twice in the request")
        if (named.name is None) == (named.id == UUID_ZERO):
            raise InvalidRequest("a topic is named by its name or by its id, not by both or neither")
        topic = topics.get(named.name) if named.name is not None else topics.by_id(named.id)
        named = Named(topic.name, topic.id)
        return named, topics.delete(topic.name)
    except TopicDeletionDisabled as error:
        return named, error if call.api_version >= VERSION_DELETION_DISABLED else InvalidRequest(str(error))
    except KqueueError as error:
        return named, error


def _respond(outcomes: list[Outcome]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_result(named, error_of(what, LATE)) for named, what in outcomes])


def _result(named: Named, error: BaseException | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=named.name, topic_id=named.id, error_code=code_of(error), error_message=message_of(error))
