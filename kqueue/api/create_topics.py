"""CreateTopics: each topic of the request succeeds or fails for itself."""

from __future__ import annotations

from collections import Counter

from kqueue.api.call import Call, error_of, wait_for_all
from kqueue.api.configs import topic_rows
from kqueue.api.errors import code_of, message_of
from kqueue.base.errors import InvalidReplicaAssignment, InvalidRequest, KqueueError
from kqueue.base.names import UUID_ZERO
from kqueue.base.settings import TopicConfig
from kqueue.base.tickets import Ticket
from kqueue.broker.topics import NewTopic, Topic
from kqueue.broker.waiting import Wait
from kqueue.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

VERSIONS = (0, 7)
REPLICATION_FACTOR = 1

Outcome = Ticket[Topic] | CreatableTopicResult


def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse | Wait[CreateTopicsResponse]:
    """Answered when all are stored, or when `timeout_ms` is over: what is then still under way may yet come to be."""
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    outcomes = {
        name: _create(topic, call, validate_only=request.validate_only) if counts[name] == 1 else _repeated(name)
        for name, topic in topics.items()
    }
    tickets = tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Ticket))
    return wait_for_all(tickets, lambda: _respond(outcomes), call.deadline_ms(request.timeout_ms))


def refuse(request: CreateTopicsRequest, version: int, error: BaseException) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[_refused(name, error) for name in names])


def _create(asked: CreatableTopic, call: Call, *, validate_only: bool) -> Outcome:
    topics = call.broker.topics
    try:
        new = _new_topic(asked)
        if validate_only:
            return _created(asked.name, UUID_ZERO, topics.count_of(new), topics.check_new(new))
        return topics.create(new)
    except KqueueError as error:
        return _refused(asked.name, error)


def _new_topic(asked: CreatableTopic) -> NewTopic:
    assignments = {one.partition_index: one.broker_ids for one in asked.assignments}
    if len(assignments) != len(asked.assignments):
        raise InvalidReplicaAssignment(f"topic {asked.name!r}: a partition is assigned twice")
    configs = {config.name: config.value for config in asked.configs}
    return NewTopic(asked.name, asked.num_partitions, asked.replication_factor, assignments, configs)


def _respond(outcomes: dict[str, Outcome]) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_result(name, outcome) for name, outcome in outcomes.items()])


def _result(name: str, outcome: Outcome) -> CreatableTopicResult:
    if not isinstance(outcome, Ticket):
        return outcome
    error = error_of(outcome, "the topic was not stored in time; it may still come to be")
    if error is not None:
        return _refused(name, error)
    topic = outcome.result()
    return _created(name, topic.id, len(topic.partitions), topic.config)


def _created(name: str, id: bytes, count: int, config: TopicConfig) -> CreatableTopicResult:
    rows = [
        CreatableTopicConfigs(name=row.setting.name, value=row.value, config_source=row.source.value, is_sensitive=row.is_sensitive)
        for row in topic_rows(config)
    ]
    return CreatableTopicResult(
        name=name, topic_id=id, error_message=None, num_partitions=count, replication_factor=REPLICATION_FACTOR, configs=rows
    )


def _repeated(name: str) -> CreatableTopicResult:
    return _refused(name, InvalidRequest(f"topic {name!r} stands twice in the request"))


def _refused(name: str, error: BaseException) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code_of(error), error_message=message_of(error))
