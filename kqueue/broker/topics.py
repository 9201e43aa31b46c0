"""Topics of the broker: creation, growth, deletion, stored in the metadata store."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kqueue.base.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KqueueError,
    PluginError,
    PolicyViolation,
    SettingError,
    StorageFailed,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.base.names import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    check_topic,
    collision_key,
    parse_uuid,
    random_uuid,
    uuid_text,
)
from kqueue.base.promise import Promise
from kqueue.base.settings import Config, TopicConfig, format_value
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.text import counted
from kqueue.broker import deleted_topics
from kqueue.broker.append_path import ProduceAppender
from kqueue.broker.config_changes import check_size
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.broker.partition import Partition
from kqueue.broker.partition_host import PartitionHost
from kqueue.broker.replica_assignment import check_replicas
from kqueue.log.config import LogConfig
from kqueue.records.partitioners import PARTITIONERS

PREFIX = "/topics/"
OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONER = "kqueue.partitioner"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC})
"""Internal topics that the broker creates on first use."""
NO_COUNT = -1


class _CoordinatorTopic(NamedTuple):
    """How an internal topic is created. `partition_count`, `segment_bytes`: names of settings."""

    partition_count: str
    segment_bytes: str
    cleanup_policy: str
    compression_type: str
    configs: Mapping[str, str] = {}


_COORDINATOR_TOPICS = {
    OFFSETS_TOPIC: _CoordinatorTopic(
        "offsets.topic.num.partitions", "offsets.topic.segment.bytes", "compact", "producer"
    ),
    TRANSACTIONS_TOPIC: _CoordinatorTopic(
        "transaction.state.log.num.partitions", "transaction.state.log.segment.bytes", "compact", "uncompressed"
    ),
    SHARE_TOPIC: _CoordinatorTopic(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.segment.bytes",
        "delete",  # the coordinator deletes what is redundant
        "producer",
        {"retention.ms": "-1"},
    ),
}
"""Source: Kafka's GroupCoordinatorService, TransactionCoordinator, ShareCoordinatorService."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `partitions`, `replication_factor`: -1 means the broker's default.

    `assignments`: partition -> broker ids, instead of both numbers; empty: the broker assigns.
    `configs`: the topic's own settings, as text.
    """

    name: str
    partitions: int = NO_COUNT
    replication_factor: int = NO_COUNT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


class Topic:
    """One topic. `partitions`: by index, from 0. `log_config`: `config` in the form of its logs."""

    __slots__ = ("_appender", "config", "id", "log_config", "name", "partitions")

    def __init__(self, name: str, id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.id = id
        self.config = config
        self.log_config = LogConfig.from_values(config)
        self.partitions: list[Partition] = []
        self._appender: ProduceAppender | None = None

    @property
    def appender(self) -> ProduceAppender:
        """Appends what producers send to partitions of this topic; built on first use."""
        if self._appender is None:
            self._appender = ProduceAppender(self.config)
        return self._appender

    @property
    def is_internal(self) -> bool:
        """Whether the topic is internal: clients must not write to it or delete it."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition:
        """The partition. Raises UnknownTopicOrPartition."""
        if not 0 <= index < len(self.partitions):
            raise UnknownTopicOrPartition(
                f"topic {self.name} has partitions 0 to {len(self.partitions) - 1}, not {index}"
            )
        return self.partitions[index]

    def configure(self, config: TopicConfig) -> None:
        """Put settings in force, for the open logs too. Appends under way keep the old ones."""
        self.config = config
        self.log_config = LogConfig.from_values(config)
        self._appender = None
        for partition in self.partitions:
            partition.configure(self.log_config)

    def record(self, overrides: Mapping[str, Any] | None = None) -> bytes:
        """Return the topic's record for the metadata store, with its own settings or these."""
        values = self.config.overrides if overrides is None else overrides
        overrides = {name: format_value(value) for name, value in values.items()}
        return json.dumps({"id": uuid_text(self.id), "partitions": len(self.partitions), "configs": overrides}).encode()


class Topics:
    """All topics of one broker. A change is a promise, done when it is stored and in effect."""

    def __init__(
        self,
        config: Config,
        metadata: MetadataCache,
        host: PartitionHost,
        rng: random.Random,
        *,
        on_created: Callable[[Topic, Sequence[Partition]], None],
        on_configured: Callable[[Topic], None],
        on_deleted: Callable[[Topic], None],
    ) -> None:
        """Take the callbacks: `on_created(topic, new partitions)`, `on_configured(topic)`,
        `on_deleted(topic)`.
        """
        self._config = config
        self._metadata = metadata
        self._host = host
        self._rng = rng
        self._on_created = on_created
        self._on_configured = on_configured
        self._on_deleted = on_deleted
        self._topics: dict[str, Topic] = {}
        self._names: list[str] | None = None
        self._by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._creating: dict[str, Promise[Topic]] = {}
        self._growing = 0
        self._partition_count = 0

    def load(self) -> None:
        """Load all topics from the store; logs are opened on first use.

        Raises: StorageFailed: a record cannot be read. SettingError: a topic has a setting that is
            unknown now, such as a policy of a removed plugin.
        """
        for name, value in self._metadata.with_prefix(PREFIX).items():
            try:
                record = json.loads(value)
                id, configs, count = parse_uuid(record["id"]), dict(record["configs"]), int(record["partitions"])
            except (ValueError, KeyError, TypeError) as error:
                raise StorageFailed(
                    f"the metadata store is damaged: {PREFIX}{name} can't be read: {error!r}"
                ) from error
            topic = Topic(name, id, self._stored_config(name, configs))
            self._grow(topic, count)
            self._add(topic)

    def _stored_config(self, name: str, overrides: Mapping[str, str | None]) -> TopicConfig:
        try:
            return self._config.for_topic(overrides)
        except SettingError as error:  # of a removed plugin, or of a newer version
            raise SettingError(f"topic {name} was made with a setting that can't be used now: {error}") from None

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    def names(self) -> list[str]:
        """Return all names, sorted: a list that must not be changed. It is kept until the next
        change, so that a walk in pages does not sort for each.
        """
        if self._names is None:
            self._names = sorted(self._topics)
        return self._names

    def find(self, name: str) -> Topic | None:
        """Return the topic; None: no such topic."""
        return self._topics.get(name)

    def get(self, name: str) -> Topic:
        """The topic. Raises UnknownTopicOrPartition."""
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        return topic

    def find_by_id(self, id: bytes) -> Topic | None:
        """Return the topic with this 16-byte id; None: no such topic."""
        return self._by_id.get(id)

    def by_id(self, id: bytes) -> Topic:
        """The topic with this 16-byte id. Raises UnknownTopicId."""
        topic = self._by_id.get(id)
        if topic is None:
            raise UnknownTopicId(f"no topic has the id {uuid_text(id)}")
        return topic

    def partition(self, name: str, index: int) -> Partition:
        """The partition. Raises UnknownTopicOrPartition."""
        return self.get(name).partition(index)

    def check_new(self, new: NewTopic, *, internal: bool = False) -> TopicConfig:
        """Return the settings of `new`, without creating it. Raises RequestRefused: why it cannot
        be created.
        """
        name = check_topic(new.name)
        if name == METADATA_TOPIC:
            raise InvalidRequest(f"topic {name} is Kafka's log of metadata: its folder is never opened as a topic")
        if name in self._topics or name in self._creating:
            raise TopicAlreadyExists(f"topic {name!r} already exists")
        if name in INTERNAL_TOPICS and not internal:
            raise InvalidTopic(f"topic {name} is internal: the broker creates it when it needs it")
        other = self._collisions.get(collision_key(name))
        if other is not None:
            raise InvalidTopic(f"topic {name!r} collides with {other!r}: '.' and '_' are the same in metric names")
        self._check_counts(new)
        self._check_room(name, self.count_of(new))
        return self._topic_config(new.configs)

    def count_of(self, new: NewTopic) -> int:
        """Return the number of partitions of `new`."""
        if new.assignments:
            return len(new.assignments)
        return int(self._config["num.partitions"]) if new.partitions == NO_COUNT else new.partitions

    def create(self, new: NewTopic, *, internal: bool = False) -> Promise[Topic]:
        """Create a topic. Raises what `check_new` raises; the promise: StorageFailed, Conflict.

        Durability: on disk when the promise is done.
        """
        topic = Topic(new.name, random_uuid(self._rng), self.check_new(new, internal=internal))
        self._grow(topic, self.count_of(new))
        promise: Promise[Topic] = Promise()
        self._creating[topic.name] = promise
        self._collisions[collision_key(topic.name)] = topic.name
        self._partition_count += len(topic.partitions)

        def done(error: KqueueError | None) -> None:
            del self._creating[topic.name]
            self._partition_count -= len(topic.partitions)
            if error is not None:
                del self._collisions[collision_key(topic.name)]
                self._metadata.fail(promise, error)
                return
            self._add(topic)
            self._on_created(topic, topic.partitions)
            self._metadata.resolve(promise, topic)

        self._metadata.commit(f"create topic {topic.name}", {PREFIX + topic.name: topic.record()}, done)
        return promise

    def create_on_demand(self, name: str) -> Promise[Topic]:
        """Create a topic on first use, or return the promise of its running creation. Raises as
        `check_new`.
        """
        creating = self._creating.get(name)
        if creating is not None:
            return creating
        if name in COORDINATOR_TOPICS:
            return self.create(self._coordinator_topic(name), internal=True)
        return self.create(NewTopic(name))

    def delete(self, name: str) -> Promise[None]:
        """Delete a topic; its files are deleted in the background.

        Raises: UnknownTopicOrPartition, InvalidTopic, TopicDeletionDisabled.
        Durability: stored when the promise is done; after a crash the next start deletes its files.
        """
        topic = self.get(name)
        if topic.is_internal:
            raise InvalidTopic(f"topic {name} is internal and can't be deleted")
        if not self._config["delete.topic.enable"]:
            raise TopicDeletionDisabled("delete.topic.enable is false")
        promise: Promise[None] = Promise()

        def done(error: KqueueError | None) -> None:
            if error is not None:
                self._metadata.fail(promise, error)
                return
            self._remove(topic)
            self._on_deleted(topic)
            self._metadata.resolve(promise, None)

        note = {deleted_topics.key_of(topic.id): name.encode()}
        self._metadata.commit(f"delete topic {name}", {PREFIX + name: None, **note}, done)
        return promise

    def clear(self, also: Iterable[str] = ()) -> list[Topic]:
        """Remove all topics, internal ones too, and return them; the caller deletes their logs.

        Blocks; no client may be served meanwhile. Raises StorageFailed, Conflict: nothing changed.

        Args:
            also: metadata keys to remove in the same commit.
        """
        topics = list(self)
        puts: dict[str, bytes | None] = dict.fromkeys(also)
        puts |= {PREFIX + topic.name: None for topic in topics}
        puts |= {deleted_topics.key_of(topic.id): topic.name.encode() for topic in topics}
        if puts:
            self._metadata.commit_now(puts)
        for topic in topics:
            self._remove(topic)
        return topics

    def check_growth(self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None) -> None:
        """Check a new number of partitions, which may only grow. Raises RequestRefused: why not."""
        topic = self.get(name)
        have = len(topic.partitions)
        if topic.is_internal:
            raise InvalidTopic(f"topic {name} is internal: its number of partitions is fixed")
        if count <= have:
            raise InvalidPartitions(f"topic {name} has {counted(have, 'partition')}; {count} is not more")
        if assignments is not None and len(assignments) != count - have:
            raise InvalidReplicaAssignment(
                f"expected {counted(count - have, 'assignment')} for as many new partitions, found {len(assignments)}"
            )
        for brokers in assignments or ():
            check_replicas(brokers, self._host.node_id)
        self._check_room(name, count - have)

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> Promise[Topic]:
        """Raise a topic's number of partitions to `count`. Raises as `check_growth`; durable as
        `create`.
        """
        self.check_growth(name, count, assignments)
        topic = self._topics[name]
        have = len(topic.partitions)
        grown = Topic(name, topic.id, topic.config)
        self._grow(grown, count)
        promise: Promise[Topic] = Promise()
        self._growing += count - have

        def done(error: KqueueError | None) -> None:
            self._growing -= count - have
            if error is not None:
                self._metadata.fail(promise, error)
                return
            added = grown.partitions[have:]
            topic.partitions.extend(added)
            self._partition_count += len(added)
            self._on_created(topic, added)
            self._metadata.resolve(promise, topic)

        self._metadata.commit(f"add partitions to topic {name}", {PREFIX + name: grown.record()}, done)
        return promise

    def configure(self, name: str, overrides: Mapping[str, Any]) -> None:
        """Put a topic's own settings in force. They are stored already."""
        topic = self.get(name)
        topic.configure(self._config.for_topic(overrides))
        self._on_configured(topic)

    def refresh(self) -> SlicedWork[None]:
        """Put the broker's present values in force for all topics, one per step."""
        for topic in self:
            topic.configure(topic.config)
            yield None

    def _coordinator_topic(self, name: str) -> NewTopic:
        row = _COORDINATOR_TOPICS[name]
        configs = {
            "cleanup.policy": row.cleanup_policy,
            "compression.type": row.compression_type,
            "segment.bytes": str(self._config[row.segment_bytes]),
            **row.configs,
        }
        return NewTopic(name, self._config[row.partition_count], 1, configs=configs)

    def _topic_config(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        unset = [key for key, value in overrides.items() if value is None]
        if unset:
            raise InvalidConfig(f"setting {unset[0]} has no value")
        check_size("topic", overrides)
        return self.check_configs(overrides, {})

    def check_configs(self, overrides: Mapping[str, Any], old: Mapping[str, Any]) -> TopicConfig:
        """Return the settings of a topic with these overrides in place of `old`.

        Raises: InvalidConfig.
        """
        try:
            config = self._config.for_topic(overrides)
            if config.overrides.get(PARTITIONER) != old.get(PARTITIONER):
                # only where it changes: an existing topic may name a removed partitioner
                PARTITIONERS.get(config[PARTITIONER])
        except (SettingError, PluginError) as error:
            raise InvalidConfig(str(error)) from None
        low, high = config["min.compaction.lag.ms"], config["max.compaction.lag.ms"]
        if low > high:
            raise InvalidConfig(f"expected min.compaction.lag.ms of at most max.compaction.lag.ms={high}, found {low}")
        return config

    def _check_counts(self, new: NewTopic) -> None:
        if new.assignments:
            if new.partitions != NO_COUNT or new.replication_factor != NO_COUNT:
                raise InvalidRequest(
                    "a topic with its own assignments takes neither a number of partitions nor a replication factor"
                )
            if sorted(new.assignments) != list(range(len(new.assignments))):
                raise InvalidReplicaAssignment("assigned partitions must be numbered from 0 without gaps")
            for brokers in new.assignments.values():
                check_replicas(brokers, self._host.node_id)
            return
        if new.partitions != NO_COUNT and new.partitions < 1:
            raise InvalidPartitions(f"a topic has at least 1 partition, not {new.partitions}")
        if new.replication_factor not in (NO_COUNT, 1):
            raise InvalidReplicationFactor(f"1 broker can hold 1 replica, not {new.replication_factor}")

    def _check_room(self, name: str, count: int) -> None:
        limit = self._config["kqueue.max.partitions"]
        have = self._partition_count + self._growing
        if have + count > limit:
            raise PolicyViolation(
                f"topic {name}: {counted(count, 'more partition')} than the existing {have:,} "
                f"would exceed kqueue.max.partitions={limit}"
            )

    def _grow(self, topic: Topic, count: int) -> None:
        topic.partitions.extend(
            Partition(topic.name, index, self._host) for index in range(len(topic.partitions), count)
        )

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._names = None
        self._by_id[topic.id] = topic
        self._collisions[collision_key(topic.name)] = topic.name
        self._partition_count += len(topic.partitions)

    def _remove(self, topic: Topic) -> None:
        del self._topics[topic.name]
        self._names = None
        del self._by_id[topic.id]
        self._collisions.pop(collision_key(topic.name), None)
        self._partition_count -= len(topic.partitions)
