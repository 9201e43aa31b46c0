"""Settings changed at run time: alter requests, their storage and their effect.

A change is checked, what is slow of it in a job, stored in the metadata store, then made in memory,
where targets follow their records; clients see it in this order. Changes of one resource run one
after another, so each builds on the one before. Levels of loggers are not stored.

Durability: a change is one guarded commit of one key. After a crash the old values or the new
ones are in force, never a part.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.config_resources import ConfigChange, ResourceType
from kqueue.base.errors import Conflict, InvalidRequest, KqueueError, PolicyViolation, SettingError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.base.settings import Catalog, Scope, format_value
from kqueue.broker.config_changes import changed_values, check_size, replaced_values
from kqueue.broker.configs.config_targets import (
    CLIENT_METRICS_KIND,
    CONFIGS_PREFIX,
    GROUP_KIND,
    BrokerTarget,
    ConfigTarget,
    NamedTarget,
    TopicTarget,
)
from kqueue.broker.configs.logger_levels import LoggerLevels
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.topics.topics import Topic, TopicEvents, Topics
from kqueue.groups.config import GroupConfig
from kqueue.share import config as share_config
from kqueue.storage.sealing import Sealer

logger = logging.getLogger("kqueue.broker")
QUEUED_MAX = 1000
"""Changes of one resource that wait for each other."""
ATTEMPTS_MAX = 5
"""Commits of one change; another change of the same key, as more partitions, may come between."""

Values = Mapping[str, Any]


class IneffectiveSettings(TopicEvents):
    """Warns once of each setting."""

    def __init__(self, catalog: Catalog, cluster: Cluster) -> None:
        self._catalog = catalog
        self._cluster = cluster
        self._reported: set[str] = set()

    def created(self, topic: Topic, partitions: object) -> None:
        self.warn_of(topic)

    def configured(self, topic: Topic) -> None:
        self.warn_of(topic)

    def warn_of(self, topic: Topic) -> None:
        """Warn of those of the topic's own settings that differ from the default."""
        for name, value in topic.config.overrides.items():
            row = self._catalog.topic[name]
            if value == row.default or name in self._reported:
                continue
            if row.without_effect:
                self._reported.add(name)
                events.SETTING_WITHOUT_EFFECT.log(
                    logger, "topic %s: %s has no effect: %s", topic=topic.name, setting=name, reason=row.doc
                )
            elif row.cluster_only and self._cluster.is_alone:
                self._reported.add(name)
                events.SETTING_WITHOUT_EFFECT.log(
                    logger, "topic %s: %s has no effect on a single broker", topic=topic.name, setting=name
                )


class ConfigResource(NamedTuple):
    """A resource. `name`: a topic, a broker's id ("" for all brokers), a group, a subscription."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"{kind} defaults"


class DynamicConfigs:
    """The settings of all resources of one broker. Belongs to the owner thread.

    Attributes:
        topics, brokers, groups, client_metrics: the targets of each type.
        loggers: the levels of the broker's loggers.
    """

    def __init__(
        self,
        config: Config,
        node_id: int,
        metadata: MetadataCache,
        topics: Topics,
        after_effect: Callable[[Callable[[], None]], None],
        jobs: Jobs,
        sealer: Sealer | None = None,
    ) -> None:
        """Take the parts. `after_effect(call)`: calls once topics have the values of the broker."""
        rows = config.catalog.rows
        self._config = config
        self._metadata = metadata
        self._after_effect = after_effect
        self._jobs = jobs
        self.topics = TopicTarget(config, topics)
        self.brokers = BrokerTarget(config, node_id, metadata, sealer)
        self.groups = NamedTarget(GROUP_KIND, rows(Scope.GROUP), metadata, self._check_group)
        self.client_metrics = NamedTarget(CLIENT_METRICS_KIND, rows(Scope.CLIENT_METRICS), metadata)
        self.loggers = LoggerLevels()
        self._targets: dict[ResourceType, ConfigTarget] = {
            ResourceType.TOPIC: self.topics,
            ResourceType.BROKER: self.brokers,
            ResourceType.GROUP: self.groups,
            ResourceType.CLIENT_METRICS: self.client_metrics,
        }
        self._queues: dict[ConfigResource, deque[_Alteration]] = {}
        self._advancing: set[ConfigResource] = set()

    def _check_group(self, own: Mapping[str, Any]) -> None:
        GroupConfig.of(self._config).check_own(own)
        share_config.check_own(self._config, own)

    def load(self) -> None:
        """Put all stored settings but those of topics in force. Raises StorageFailed."""
        self.brokers.load()
        self.groups.load()
        self.client_metrics.load()

    def keys(self) -> list[str]:
        """Return the metadata keys of all stored settings but those of topics."""
        return [CONFIGS_PREFIX + key for key in self._metadata.with_prefix(CONFIGS_PREFIX)]

    def own(self, resource: ConfigResource) -> Values:
        """Return the parsed values set for a resource. Raises RequestRefused: there is none."""
        return self._targets[resource.type].own(resource.name)

    def names(self, type: ResourceType) -> list[str]:
        """Return the resources of a type, sorted; groups and client metrics: those that have
        settings.
        """
        return (self.brokers if type is ResourceType.BROKER_LOGGER else self._targets[type]).names()

    def alter(
        self, resource: ConfigResource, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> Promise[None]:
        """Change single settings of a resource. The promise fails with the reason of a refusal.

        Durability: on disk and in force when the promise is done.
        """
        if resource.type is ResourceType.BROKER_LOGGER:
            return self._alter_loggers(resource.name, changes, validate_only=validate_only)
        target = self._targets[resource.type]

        def plan(own: Values) -> Values:
            return changed_values(
                target.find, own, lambda row: target.in_force(resource.name, row), changes, target.not_a_list
            )

        return self._submit(_Alteration(resource, target, plan, validate_only))

    def replace(
        self, resource: ConfigResource, values: Sequence[tuple[str, str | None]], *, validate_only: bool = False
    ) -> Promise[None]:
        """Replace all settings of a resource; those that are not named are unset. As `alter`."""
        if resource.type is ResourceType.BROKER_LOGGER:
            return _failed(
                InvalidRequest(
                    f"Unknown resource type {resource.type.value}: levels of loggers can't be replaced all at once: "
                    "use IncrementalAlterConfigs"
                )
            )
        alteration = _Alteration(
            resource, self._targets[resource.type], lambda own: replaced_values(values), validate_only
        )
        return self._submit(alteration)

    def _alter_loggers(self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool) -> Promise[None]:
        try:
            self.check_logger_resource(name)
            self.loggers.check(changes)
        except KqueueError as error:
            return _failed(error)
        if not validate_only:
            self.loggers.apply(changes)
            for change in changes:
                events.LOGGER_LEVEL_CHANGED.log(
                    logger, "level of logger %s: %s", name=change.name, level=change.value or "of its parent"
                )
        return _done()

    def check_logger_resource(self, name: str) -> None:
        """Raise InvalidRequest if `name` is not the id of this broker."""
        if not name:
            raise InvalidRequest(
                "Node id must be an integer, but it is: : expected the id of a broker, found an empty name: loggers "
                "have no defaults"
            )
        self.brokers.check_name(name)

    # --- changes one after another

    def _submit(self, alteration: _Alteration) -> Promise[None]:
        queue = self._queues.setdefault(alteration.resource, deque())
        if len(queue) >= QUEUED_MAX:
            return _failed(PolicyViolation(f"{QUEUED_MAX} changes of {alteration.resource} wait already: retry later"))
        queue.append(alteration)
        self._advance(alteration.resource)
        return alteration.promise

    def _advance(self, resource: ConfigResource) -> None:
        """Start the changes that are next, until one waits for the disk."""
        if resource in self._advancing:
            return  # called by a change that ended at once: the loop below goes on
        self._advancing.add(resource)
        queue = self._queues[resource]
        while queue:
            if not queue[0].attempts:
                self._start(queue[0])
            if not queue[0].promise.done:
                break
            queue.popleft()
        if not queue:
            del self._queues[resource]
        self._advancing.remove(resource)

    def _start(self, alteration: _Alteration) -> None:
        resource, target = alteration.resource, alteration.target
        alteration.attempts += 1
        try:
            own = target.own(resource.name)
            planned = alteration.plan(own)
            check_size(str(resource), planned)
            values, slow = target.check(resource.name, planned)
        except KqueueError as error:
            self._settle(alteration, error)
            return
        if values == own or not slow:
            self._store(alteration, own, values)
            return

        def run() -> None:
            for check in slow:
                check()

        def finish(_: None, error: BaseException | None) -> None:
            if error is None:
                self._store(alteration, own, values)
            elif isinstance(error, SettingError):
                self._settle(alteration, InvalidRequest(str(error)))
            else:
                events.STORED_SETTINGS_UNCHECKED.log(
                    logger, "new settings of %s could not be checked: %r", resource=resource, error=error
                )
                self._settle(alteration, StorageFailed(f"new settings of {resource} could not be checked"))

        self._jobs.submit(IoJob(f"check settings of {resource}", run, finish, "settings"))

    def _store(self, alteration: _Alteration, own: Values, values: Values) -> None:
        resource, target = alteration.resource, alteration.target
        if alteration.validate_only or values == own:
            self._settle(alteration, None)
            return
        try:
            key, record = target.record(resource.name, values)
        except KqueueError as error:
            self._settle(alteration, error)
            return

        def done(error: KqueueError | None) -> None:
            if error is None:
                _log_change(target, resource, own, values)
                self._after_effect(lambda: self._settle(alteration, None))
            elif isinstance(error, Conflict) and alteration.attempts < ATTEMPTS_MAX:
                self._start(alteration)
            else:
                self._settle(alteration, error)

        self._metadata.commit(f"change settings of {resource}", {key: record}, done)

    def _settle(self, alteration: _Alteration, error: KqueueError | None) -> None:
        if error is None:
            self._metadata.resolve(alteration.promise, None)
        else:
            self._metadata.fail(alteration.promise, error)
        self._advance(alteration.resource)


class _Alteration:
    """One change of one resource. `plan`: returns its new values from its present ones."""

    __slots__ = ("attempts", "plan", "promise", "resource", "target", "validate_only")

    def __init__(
        self, resource: ConfigResource, target: ConfigTarget, plan: Callable[[Values], Values], validate_only: bool
    ) -> None:
        self.resource = resource
        self.target = target
        self.plan = plan
        self.validate_only = validate_only
        self.attempts = 0
        self.promise: Promise[None] = Promise()


def _log_change(target: ConfigTarget, resource: ConfigResource, old: Values, new: Values) -> None:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            secret = name in new and target.find(name).is_secret
            value = "hidden" if secret else (format_value(new.get(name)) or "unset")[:200]
            events.SETTING_CHANGED.log(logger, "%s: %s is now %s", resource=resource, setting=name, value=value)


def _done() -> Promise[None]:
    promise: Promise[None] = Promise()
    promise.resolve(None)
    return promise


def _failed(error: KqueueError) -> Promise[None]:
    promise: Promise[None] = Promise()
    promise.fail(error)
    return promise
