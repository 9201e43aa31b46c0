"""Injected error responses, for a whole request or for selected topics and partitions of it.

How an error for one topic or partition is answered:

- Produce, ListOffsets, OffsetCommit, OffsetForLeaderEpoch, DeleteRecords: the selected part of the
  request is not executed, the rest is.
- Metadata: the response lists the brokers and has the error on the topic or partition. The request
  does not create the topic.
- Fetch: the response is sent at once, with the data that the other partitions have. Partitions that
  are only in the client's fetch session are selected too.
- Any other API: the whole request fails with the error if it names the topic.

Errors of fetch sessions are in the top-level field of a Fetch response (version 7 and later), not
on its partitions.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from kqueue.api.errors import CodedError
from kqueue.api.request_topics import RequestTopic, accessed_topics, partition_index, topic_key, topic_name_of
from kqueue.network.interception import InterceptedRequest
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kqueue.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

ACKS_NONE = 0
NO_LEADER = -1
UNKNOWN = -1
VERSION_TOP_ERROR = 7
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class PartitionFilter(NamedTuple):
    """Selects topics and partitions; None selects all."""

    topic: str | None
    partition: int | None

    @property
    def is_all(self) -> bool:
        """Whether the filter selects everything."""
        return self.topic is None and self.partition is None

    def has_topic(self, topic: str | bytes) -> bool:
        """Whether the filter selects at least one partition of the topic."""
        return self.topic is None or self.topic == topic

    def has(self, topic: str | bytes, partition: int) -> bool:
        """Whether the filter selects the partition."""
        return self.has_topic(topic) and (self.partition is None or self.partition == partition)

    def is_named(self, named: list[RequestTopic]) -> bool:
        """Whether the filter selects a request that names these topics.

        A topic without partitions stands for all its partitions.
        """
        for topic, partitions in named:
            if self.has_topic(topic) and (self.partition is None or not partitions or self.partition in partitions):
                return True
        return self.is_all


class _FieldNames(NamedTuple):
    """Field names of topics and partitions in a request and in its response."""

    topics: str
    partitions: str
    answers: str
    answered: str


_BY_TOPICS = _FieldNames("topics", "partitions", "topics", "partitions")
_FIELD_NAMES = {
    "Produce": _FieldNames("topic_data", "partition_data", "responses", "partition_responses"),
    "ListOffsets": _BY_TOPICS,
    "OffsetCommit": _BY_TOPICS,
    "OffsetForLeaderEpoch": _BY_TOPICS,
    "DeleteRecords": _BY_TOPICS,
}


def refuse(asked: InterceptedRequest, error: CodedError, choice: PartitionFilter) -> None:
    """Answer the selected part of `asked` with `error`; the rest of the request is executed.

    Later faults still apply to the rest.
    """
    if asked.api == "Metadata":
        asked.modify(lambda asked: _refuse_metadata(asked, error.code, choice))
    elif asked.api == "Fetch" and not (error.code in SESSION_ERRORS and asked.version >= VERSION_TOP_ERROR):
        asked.modify(lambda asked: _refuse_fetch(asked, error, choice))
    elif choice.is_all or asked.api not in _FIELD_NAMES:
        asked.refuse(error)
    else:
        asked.modify(lambda asked: _refuse_part(asked, error, choice, _FIELD_NAMES[asked.api]))


def _refuse_part(asked: InterceptedRequest, error: CodedError, choice: PartitionFilter, shape: _FieldNames) -> None:
    """Remove the selected partitions from the request, and add their errors to the response."""
    request = asked.request
    meant, rest = _split(asked, getattr(request, shape.topics), choice, shape)
    if not meant:
        return
    if not rest:
        asked.refuse(error)
        return
    refused = copy.copy(request)
    setattr(refused, shape.topics, meant)
    setattr(request, shape.topics, rest)
    if asked.api == "Produce" and request.acks == ACKS_NONE:
        asked.drop_reply()  # as Kafka: without acks there is no response, so the connection is closed
        return
    errors = getattr(asked.route.served.error_response(refused, asked.version, error), shape.answers)
    asked.changes.append(lambda response: _with_errors(response, errors, shape))


def _split(
    asked: InterceptedRequest, topics: list[Any], choice: PartitionFilter, shape: _FieldNames
) -> tuple[list[Any], list[Any]]:
    meant: list[Any] = []
    rest: list[Any] = []
    for topic in topics:
        name = topic_name_of(topic_key(topic), asked.call.broker)
        partitions = getattr(topic, shape.partitions)
        for part, is_selected in ((meant, True), (rest, False)):
            chosen = [one for one in partitions if choice.has(name, partition_index(one)) is is_selected]
            if chosen:
                part.append(copy.copy(topic))
                setattr(part[-1], shape.partitions, chosen)
    return meant, rest


def _with_errors(response: Any, errors: list[Any], shape: _FieldNames) -> Any:
    answers = getattr(response, shape.answers)
    by_key = {topic_key(one): one for one in answers}
    for topic in errors:
        there = by_key.get(topic_key(topic))
        if there is None:
            answers.append(copy.copy(topic))
        else:
            setattr(there, shape.answered, getattr(there, shape.answered) + getattr(topic, shape.answered))
    return response


# --- Metadata


def _refuse_metadata(asked: InterceptedRequest, code: ErrorCode, choice: PartitionFilter) -> None:
    request = asked.request
    failed_topics: list[tuple[Any, str | bytes]] = []
    asks_all = _asks_all(asked)
    if request.topics is not None and choice.partition is None:
        asked_for = [(one, topic_name_of(topic_key(one), asked.call.broker)) for one in request.topics]
        failed_topics = [(one, name) for one, name in asked_for if choice.has_topic(name)]
        request.topics = [one for one, name in asked_for if not choice.has_topic(name)]
    entries = [
        MetadataResponseTopic(error_code=code, name=None if isinstance(name, bytes) else name, topic_id=one.topic_id)
        for one, name in failed_topics
    ]

    def change(response: MetadataResponse) -> MetadataResponse:
        if failed_topics and not request.topics and not asks_all:
            response.topics = []  # version 0 treats the empty list as all topics
        for topic in response.topics:
            if choice.has_topic(topic.name or ""):
                _fail_topic(topic, code, choice)
        response.topics = [*response.topics, *entries]
        if choice.is_all:
            response.error_code = code
        return response

    asked.changes.append(change)


def _asks_all(asked: InterceptedRequest) -> bool:
    topics = asked.request.topics
    return topics is None or (asked.version == 0 and not topics)


def _fail_topic(topic: MetadataResponseTopic, code: ErrorCode, choice: PartitionFilter) -> None:
    if choice.partition is None:
        topic.error_code = code
        topic.partitions = []
        return
    for one in topic.partitions:
        if one.partition_index == choice.partition:
            one.error_code = code
            one.leader_id = NO_LEADER


# --- Fetch


def _refuse_fetch(asked: InterceptedRequest, error: CodedError, choice: PartitionFilter) -> None:
    request, broker = asked.request, asked.call.broker
    keys = _fetched(asked)
    meant = {(topic, index) for topic, index in keys if choice.has(topic_name_of(topic, broker), index)}
    if not meant:
        if choice.is_all:
            asked.refuse(error)
        return
    request.max_wait_ms = 0
    asked.changes.append(lambda response: _fail_fetched(response, meant, error.code, asked.version))


def _fetched(asked: InterceptedRequest) -> list[tuple[str | bytes, int]]:
    request = asked.request
    forgotten = {(topic_key(one), index) for one in request.forgotten_topics_data for index in one.partitions}
    named = {(topic_key(one), each.partition): None for one in request.topics for each in one.partitions}
    if request.session_epoch > 0:
        remembered = asked.call.broker.fetch_sessions.of_consumers.partitions_of(request.session_id)
        named.update(dict.fromkeys(key for key in remembered if key not in forgotten))
    return list(named)


def _fail_fetched(
    response: FetchResponse, meant: set[tuple[str | bytes, int]], code: ErrorCode, version: int
) -> FetchResponse:
    if response.error_code:
        return response
    left = dict.fromkeys(sorted(meant, key=repr))
    for topic in response.responses:
        key = topic_key(topic)
        for position, one in enumerate(topic.partitions):
            if (key, one.partition_index) in meant:
                topic.partitions[position] = _failed(one.partition_index, code)
                left.pop((key, one.partition_index), None)
    for name_or_id, index in left:
        where = {"topic": name_or_id} if isinstance(name_or_id, str) else {"topic_id": name_or_id}
        response.responses.append(FetchableTopicResponse(partitions=[_failed(index, code)], **where))
    return response


def _failed(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=UNKNOWN, records=b"")


def is_meant(asked: InterceptedRequest, choice: PartitionFilter) -> bool:
    """Whether the request names a topic or partition that `choice` selects."""
    if choice.is_all:
        return True
    if asked.api == "Fetch":
        broker = asked.call.broker
        return choice.is_named(
            [RequestTopic(topic_name_of(topic, broker), (index,)) for topic, index in _fetched(asked)]
        )
    if asked.api == "Metadata" and _asks_all(asked):
        return choice.topic is None or asked.call.broker.topics.find(choice.topic) is not None
    return choice.is_named(accessed_topics(asked.request, asked.api, asked.call.broker))
