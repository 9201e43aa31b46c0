"""CreateTopics (key 19): each topic of the request succeeds or fails by itself (KIP-4).

Versions 0 to 7:

    0       count, replication factor, assignments, configs
    1       validate only; error messages
    2       throttle time
    3       clients throttle themselves (KIP-219)
    4       -1 partitions or replicas: the broker's default (KIP-464)
    5       flexible encoding (KIP-482); the response holds count, factor and configs (KIP-525)
    6       THROTTLING_QUOTA_EXCEEDED is known (KIP-599)
    7       topic ids (KIP-516)

From version 6 on a topic above the client's quota of changed partitions is refused; before, it is
created, and the client is held back.
"""

from __future__ import annotations

from collections import Counter

from kqueue.api.access import on_each
from kqueue.api.config_entries import ConfigEntry, TopicConfigEntries
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.config import TopicConfig
from kqueue.base.errors import InvalidReplicaAssignment, InvalidRequest, KqueueError
from kqueue.base.names import UUID_ZERO
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import NO_COUNT, NewTopic, Topic
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

VERSIONS = (0, 7)
ACCESS = (
    on_each(AclOperation.CREATE, ResourceType.TOPIC, "or CREATE of the cluster"),
    on_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "for the settings in the response only"),
)
VERSION_CONFIGS = 5
VERSION_STRICT_QUOTA = 6
ITEM_WEIGHT = 4
ROWS_MAX = 100_000
"""Settings in one response; topics past it are reported without theirs."""

Outcome = Promise[Topic] | CreatableTopicResult


def handle(
    request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse | DelayedOperation[CreateTopicsResponse]:
    """Respond when all are stored, or after `timeout_ms`: unfinished changes may still succeed."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: CreateTopicsRequest, version: int, error: BaseException) -> CreateTopicsResponse:
    """Return `error` for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=[_refused(name, error) for name in names])


def _handle_sliced(
    request: CreateTopicsRequest, context: RequestContext
) -> SlicedWork[CreateTopicsResponse | DelayedOperation[CreateTopicsResponse]]:
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    configs, quota = _ConfigBuilder(context), context.mutation_quota(VERSION_STRICT_QUOTA)
    outcomes: dict[str, Outcome] = {}
    for name, topic in topics.items():
        if counts[name] > 1:
            outcomes[name] = _repeated(name)
        else:
            outcomes[name] = _create(topic, context, quota, configs if request.validate_only else None)
        yield None
    promises = tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Promise))
    return wait_for_all(
        promises,
        lambda: in_slices(context, _respond(outcomes, configs, quota)),
        context.change_deadline_ms(request.timeout_ms),
    )


def _create(
    requested: CreatableTopic, context: RequestContext, quota: MutationQuota, validated: _ConfigBuilder | None
) -> Outcome:
    """Return the promise of a topic being created, or the result if it is refused or only
    `validated`.
    """
    topics = context.broker.topics
    try:
        context.require_or_cluster(AclOperation.CREATE, ResourceType.TOPIC, requested.name)
        new = _new_topic(requested)
        if quota.is_bounded:
            topics.check_new(new)  # what can't be created is not counted
            quota.count(topics.count_of(new))
        if validated is not None:
            config = topics.check_new(new)
            return validated.created(requested.name, UUID_ZERO, topics.count_of(new), _factor(new, context), config)
        return topics.create(new)
    except KqueueError as error:
        return _refused(requested.name, error)


def _factor(new: NewTopic, context: RequestContext) -> int:
    """Return the number of replicas of each partition of `new`, which can be created."""
    if new.assignments:
        return len(new.assignments[0])
    if new.replication_factor != NO_COUNT:
        return new.replication_factor
    return 1 if context.broker.metadata.cluster.is_alone else int(context.broker.config["default.replication.factor"])


def _new_topic(requested: CreatableTopic) -> NewTopic:
    assignments = {assignment.partition_index: assignment.broker_ids for assignment in requested.assignments}
    if len(assignments) != len(requested.assignments):
        raise InvalidReplicaAssignment(f"topic {requested.name!r}: a partition is assigned twice")
    configs = {config.name: config.value for config in requested.configs}
    return NewTopic(requested.name, requested.num_partitions, requested.replication_factor, assignments, configs)


def _respond(
    outcomes: dict[str, Outcome], configs: _ConfigBuilder, quota: MutationQuota
) -> SlicedWork[CreateTopicsResponse]:
    results = yield from collect(lambda outcome: _result(*outcome, configs), outcomes.items())
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


def _result(name: str, outcome: Outcome, configs: _ConfigBuilder) -> CreatableTopicResult:
    if not isinstance(outcome, Promise):
        return outcome
    error = error_of(outcome, "the topic was not stored in time; it may still be created")
    if error is not None:
        return _refused(name, error)
    topic = outcome.result()
    return configs.created(name, topic.id, len(topic.partitions), len(topic.partitions[0].replicas), topic.config)


class _ConfigBuilder:
    """Builds the settings in one response; entries that several topics share are built once."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._includes_configs = context.api_version >= VERSION_CONFIGS
        self._rows = TopicConfigEntries(context.broker.config) if self._includes_configs else None
        self._shared: dict[int, tuple[ConfigEntry, CreatableTopicConfigs]] = {}
        self._rows_left = ROWS_MAX

    def created(self, name: str, id: bytes, count: int, factor: int, config: TopicConfig) -> CreatableTopicResult:
        """Return the result of a topic that was, or could be, created."""
        result = CreatableTopicResult(
            name=name, topic_id=id, error_message=None, num_partitions=count, replication_factor=factor
        )
        if self._rows is None:
            return result
        if not self._context.allows(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
            result.num_partitions = result.replication_factor = NO_COUNT
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return result
        rows = self._rows.of(config)
        self._rows_left -= len(rows)
        if self._rows_left >= 0:
            result.configs = [self._config(row) for row in rows]
        else:
            # clients take this for a created topic without known settings
            result.configs, result.topic_config_error_code = None, ErrorCode.INVALID_REQUEST
        return result

    def _config(self, row: ConfigEntry) -> CreatableTopicConfigs:
        cached = self._shared.get(id(row))
        if cached is None:
            config = CreatableTopicConfigs(
                name=row.setting.name, value=row.value, config_source=row.source.value, is_sensitive=row.is_sensitive
            )
            cached = self._shared[id(row)] = row, config
        return cached[1]


def _repeated(name: str) -> CreatableTopicResult:
    return _refused(name, InvalidRequest(f"topic {name!r} is twice in the request"))


def _refused(name: str, error: BaseException) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code_of(error), error_message=message_of(error))
