"""The rights of a client to the topics of one request, which names them by name or by id."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.broker.fetch.fetch_reader import PartitionFetchResult
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.security.operations import AclOperation, ResourceType


class TopicAccess:
    """Decides once per topic, for one request. A topic id that is unknown is allowed: what looks it
    up reports it.
    """

    def __init__(self, context: RequestContext, operation: AclOperation) -> None:
        self._context = context
        self._operation = operation
        self._errors: dict[str | bytes, KqueueError | None] = {}

    def error(self, topic: str | bytes) -> KqueueError | None:
        """Return why the client may not do the operation on a topic, a name or an id; None: it
        may. An id that it may not describe fails as an unknown one does.
        """
        if self._context.broker.security.authorizer is None:
            return None
        if topic not in self._errors:
            self._errors[topic] = self._decide(topic)
        return self._errors[topic]

    def _decide(self, topic: str | bytes) -> KqueueError | None:
        try:
            if isinstance(topic, str):
                self._context.require(self._operation, ResourceType.TOPIC, topic)
            else:  # an unknown one fails here too: what comes later would tell it from a hidden one
                self._context.topic_with_id(self._operation, topic)
        except KqueueError as error:
            return error.with_traceback(None)
        return None


def readable(
    context: RequestContext, fetches: list[PartitionFetch]
) -> tuple[list[PartitionFetch], Sequence[PartitionFetchResult]]:
    """Return the partitions that the client may read, and the results of the others; of a broker
    with an authorizer.
    """
    access = TopicAccess(context, AclOperation.READ)
    allowed: list[PartitionFetch] = []
    denied: list[PartitionFetchResult] = []
    for fetch in fetches:
        error = access.error(fetch.topic)
        if error is None:
            allowed.append(fetch)
        else:
            denied.append(PartitionFetchResult(fetch, None, error=error))
    return allowed, denied
