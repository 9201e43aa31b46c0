from __future__ import annotations

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.api.topic_access import TopicAccess, readable
from kqueue.base.errors import UnknownTopicId
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.tests.api.access_requests import Deciding, all_but, nothing
from kqueue.tests.api.harness import SimulatedClient

READ_TOPIC = AclOperation.READ, ResourceType.TOPIC


def context_of(authorizer: Deciding | None) -> tuple[RequestContext, bytes]:
    client = SimulatedClient()
    topic = client.sim.topic("t")
    client.sim.broker.security.authorizer = authorizer
    return RequestContext(client.sim.broker, 0), topic.id


def test_each_topic_is_decided_once() -> None:
    authorizer = Deciding(all_but(READ_TOPIC))
    context, topic_id = context_of(authorizer)
    access = TopicAccess(context, AclOperation.READ)
    for _ in range(3):
        assert isinstance(access.error("t"), TopicAuthorizationFailed)
        assert isinstance(access.error(topic_id), TopicAuthorizationFailed)
    assert len(authorizer.asked) == 3  # once by name; by id also whether it may be described


def test_an_id_that_may_not_be_described_is_an_unknown_one() -> None:
    context, topic_id = context_of(Deciding(nothing))
    access = TopicAccess(context, AclOperation.READ)
    hidden = access.error(topic_id)
    assert isinstance(hidden, UnknownTopicId)
    with pytest.raises(UnknownTopicId) as unknown:
        context.topic_with_id(AclOperation.READ, b"\x01" * 16)
    with pytest.raises(UnknownTopicId) as denied:
        context.topic_with_id(AclOperation.READ, topic_id)
    assert str(unknown.value).split()[:-1] == str(denied.value).split()[:-1]
    assert isinstance(access.error(b"\x01" * 16), UnknownTopicId), "both are refused at one place"


def test_denied_partitions_are_results_with_an_error() -> None:
    context, topic_id = context_of(Deciding(lambda action: action.name == "u"))
    fetches = [PartitionFetch("t", 0, 0, 1), PartitionFetch("u", 1, 0, 1), PartitionFetch(topic_id, 2, 0, 1)]
    allowed, denied = readable(context, fetches)
    assert allowed == [fetches[1]]
    assert [(result.fetch.index, type(result.error)) for result in denied] == [
        (0, TopicAuthorizationFailed),
        (2, UnknownTopicId),
    ]
