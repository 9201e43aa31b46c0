"""Topics of the broker: creation, growth, deletion, stored in the metadata store.

What a topic is, its record in the store says. A change is a commit of the record and nothing else;
topics follow their records, whoever of the cluster committed them (`Topics.apply`). A single broker
goes the same way, and is the only one that commits.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kqueue.base import events
from kqueue.base.config import Config, TopicConfig
from kqueue.base.errors import (
    Conflict,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopic,
    KqueueError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.base.names import INTERNAL_TOPICS, METADATA_TOPIC, check_topic, collision_key, random_uuid, uuid_text
from kqueue.base.native import mypyc_attr
from kqueue.base.promise import Promise
from kqueue.base.settings import format_value
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.text import counted
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.produce.append_path import ProduceAppender
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.topics import coordinator_topics, deleted_topics
from kqueue.broker.topics.replica_assignment import ReplicaAssignment
from kqueue.broker.topics.topic_configs import config_of_new, stored_config
from kqueue.log.config import LogConfig
from kqueue.replication.elections import with_configs
from kqueue.replication.registrations import PartitionRegistration, TopicRegistration

PREFIX = "/topics/"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC})
"""Internal topics that the broker creates on first use."""
NO_COUNT = -1
DECOMPRESSED_MAX = "kqueue.max.decompressed.bytes"
ATTEMPTS_MAX = 5
"""Commits of one change of a topic, whose record others may change meanwhile."""
logger = logging.getLogger("kqueue.broker")


_COORDINATOR_TOPICS = {
    OFFSETS_TOPIC: coordinator_topics.OFFSETS,
    TRANSACTIONS_TOPIC: coordinator_topics.TRANSACTIONS,
    SHARE_TOPIC: coordinator_topics.SHARE,
}
FORMER_EPOCHS_MAX = 10_000
"""Deleted topics whose leader epochs are remembered until a restart."""


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
    """One topic. `partitions`: by index, from 0. `log_config`: `config` in the form of its logs.

    `is_internal`: clients must not write to it or delete it.
    """

    __slots__ = ("_appender", "config", "id", "is_internal", "log_config", "name", "partitions")

    def __init__(self, name: str, id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.is_internal = name in INTERNAL_TOPICS
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

    def registration(self, partitions: Sequence[PartitionRegistration] | None = None) -> TopicRegistration:
        """Return what the store has of it, with its own partitions or these."""
        registrations = [partition.registration for partition in self.partitions] if partitions is None else partitions
        return TopicRegistration(self.id, _texts(self.config.overrides), tuple(registrations))


@mypyc_attr(allow_interpreted_subclasses=True)
class TopicEvents:
    """Subscribers of a broker's topics. Each method does nothing unless a subscriber says what.

    They join `Topics.observers`, and are called on the owner thread, one after another, after the
    topic is what its record says.
    """

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """The topic is new, or has more partitions: these."""

    def configured(self, topic: Topic) -> None:
        """The topic has other settings."""

    def deleted(self, topic: Topic) -> None:
        """The topic is not known any more; its logs are still there."""


class Topics:
    """All topics of one broker. A change is a promise, done when it is stored and in effect.

    Attributes: observers: called after each change, in this order.
    """

    def __init__(self, config: Config, metadata: MetadataCache, host: PartitionHost, rng: random.Random) -> None:
        self.observers: list[TopicEvents] = []
        self._config = config
        self._metadata = metadata
        self._host = host
        self._rng = rng
        self._assignment = ReplicaAssignment(config, host, rng)
        self._topics: dict[str, Topic] = {}
        self._names: list[str] | None = None
        self._by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._creating: dict[str, Promise[Topic]] = {}
        self._former_epochs: dict[str, int] = {}  # of topics deleted last, the latest at the end
        self._creation_log = coordinator_topics.CreationLog()
        self._growing = 0
        self._partition_count = 0

    def load(self) -> None:
        """Load all topics from the store; logs are opened on first use.

        Raises: StorageFailed: a record cannot be read. SettingError: a topic has a setting that is
            unknown now, such as a policy of a removed plugin.
        """
        for name, record in self._metadata.with_prefix(PREFIX).items():
            registration = self._read(name, record)
            topic = Topic(name, registration.id, stored_config(self._config, name, registration.configs))
            self._grow(topic, len(registration.partitions))
            self._add(topic)
            self._apply_partitions(topic, registration)
        self._metadata.observe(PREFIX, self._apply_all)

    def _read(self, name: str, record: bytes) -> TopicRegistration:
        alone = self._host.cluster.is_alone
        return TopicRegistration.from_bytes(name, record, self._host.sole_replica.registration if alone else None)

    def _record(self, registration: TopicRegistration) -> bytes:
        return registration.to_number_bytes() if self._host.cluster.is_alone else registration.to_bytes()

    def _apply_all(self, records: Mapping[str, bytes | None]) -> None:
        for name, record in records.items():
            try:
                self.apply(name, None if record is None else self._read(name, record))
            except KqueueError as error:
                events.TOPIC_CHANGE_IGNORED.log(logger, "topic %s stays as it was: %s", topic=name, error=error)

    def apply(self, name: str, registration: TopicRegistration | None) -> None:
        """Make a topic what its record says: create, grow, configure or delete it.

        Args: registration: None: there is no record any more.
        Raises: SettingError: it has a setting that is unknown here.
        """
        topic = self._topics.get(name)
        # With another id it was deleted and created again between two reads of the store.
        if topic is not None and (registration is None or registration.id != topic.id):
            self._note_epochs(topic)
            self._remove(topic)
            for observer in self.observers:
                observer.deleted(topic)
            for partition in topic.partitions:
                partition.note_removed()
            topic = None
        if registration is None:
            return
        is_new = topic is None
        if topic is None:
            topic = Topic(name, registration.id, stored_config(self._config, name, registration.configs))
        added = self._grow(topic, len(registration.partitions))
        if is_new:
            self._add(topic)
        else:
            self._partition_count += len(added)
        self._apply_partitions(topic, registration)
        if added:
            for observer in self.observers:
                observer.created(topic, added)
        if not is_new and _texts(topic.config.overrides) != registration.configs:
            topic.configure(stored_config(self._config, name, registration.configs))
            for observer in self.observers:
                observer.configured(topic)

    def _note_epochs(self, topic: Topic) -> None:
        """Keep the greatest leader epoch of a topic that is deleted, see `_assign_above`."""
        self._former_epochs.pop(topic.name, None)
        self._former_epochs[topic.name] = max(
            (partition.registration.leader_epoch for partition in topic.partitions), default=0
        )
        if len(self._former_epochs) > FORMER_EPOCHS_MAX:
            del self._former_epochs[next(iter(self._former_epochs))]

    def _assign_above(self, new: NewTopic) -> tuple[PartitionRegistration, ...]:
        """Return the partitions of a new topic, with leader epochs above those of a deleted one of
        its name.

        librdkafka ignores a partition's leader of a lower epoch as stale, also of another topic id:
        a producer would wait until its messages expire. Kafka begins with 0.
        """
        partitions = self._assign(new)
        former = self._former_epochs.get(new.name)
        if former is None or self._host.cluster.is_alone:  # one broker has one epoch for all
            return partitions
        return tuple(partition._replace(leader_epoch=former + 1) for partition in partitions)

    def _apply_partitions(self, topic: Topic, registration: TopicRegistration) -> None:
        if not self._host.cluster.is_alone:
            for partition, partition_registration in zip(topic.partitions, registration.partitions, strict=False):
                partition.apply(partition_registration)

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
        if (other := self._collisions.get(collision_key(name))) is not None:
            raise InvalidTopic(f"topic {name!r} collides with {other!r}: '.' and '_' are the same in metric names")
        self._check_counts(new)
        self._check_room(name, self.count_of(new))
        self._assign(new)
        return config_of_new(self._config, new.configs)

    def count_of(self, new: NewTopic) -> int:
        """Return the number of partitions of `new`."""
        if new.assignments:
            return len(new.assignments)
        return int(self._config["num.partitions"]) if new.partitions == NO_COUNT else new.partitions

    def create(self, new: NewTopic, *, internal: bool = False) -> Promise[Topic]:
        """Create a topic. Raises what `check_new` raises; the promise: StorageFailed, Conflict.

        Durability: on disk when the promise is done.
        """
        name, config = new.name, self.check_new(new, internal=internal)
        partitions = self._assign_above(new)
        registration = TopicRegistration(random_uuid(self._rng), _texts(config.overrides), partitions)
        promise: Promise[Topic] = Promise()
        self._creating[name] = promise
        self._collisions[collision_key(name)] = name
        self._growing += len(partitions)

        def done(error: KqueueError | None) -> None:
            del self._creating[name]
            self._growing -= len(partitions)
            topic = self._topics.get(name)
            if topic is None:
                self._collisions.pop(collision_key(name), None)
            elif isinstance(error, Conflict):
                error = TopicAlreadyExists(f"topic {name!r} already exists")
            self._settle(promise, error, topic if topic is not None and topic.id == registration.id else None)

        self._metadata.commit(f"create topic {name}", {PREFIX + name: self._record(registration)}, done)
        return promise

    def _assign(self, new: NewTopic) -> tuple[PartitionRegistration, ...]:
        return self._assignment.of_new_topic(self.count_of(new), new.replication_factor, new.assignments)

    def _settle(self, promise: Promise[Topic], error: KqueueError | None, topic: Topic | None) -> None:
        if error is not None or topic is None:
            self._metadata.fail(promise, error or UnknownTopicOrPartition("the topic was deleted meanwhile"))
        else:
            self._metadata.resolve(promise, topic)

    def create_on_demand(self, name: str, count: Callable[[int], None] | None = None) -> Promise[Topic]:
        """Create a topic on first use, or return the promise of its running creation. Raises as
        `check_new`, and what `count` raises: it gets the number of partitions.
        """
        if (creating := self._creating.get(name)) is not None:
            return creating
        if name in COORDINATOR_TOPICS:
            with self._creation_log.of(name, _COORDINATOR_TOPICS[name]):
                return self.create(self._coordinator_topic(name), internal=True)
        if count is not None:
            self.check_new(NewTopic(name))  # what can't be created is not counted
            count(self.count_of(NewTopic(name)))
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
        attempts = ATTEMPTS_MAX

        def commit() -> None:
            self._metadata.commit(f"delete topic {name}", {PREFIX + name: None, **self._deleted(topic)}, done)

        def done(error: KqueueError | None) -> None:
            nonlocal attempts
            attempts -= 1
            if isinstance(error, Conflict) and self._by_id.get(topic.id) is not topic:
                error = UnknownTopicOrPartition(f"topic {name!r} was deleted meanwhile")
            if isinstance(error, Conflict) and attempts:
                commit()  # its record was changed meanwhile
            elif error is None:
                self._metadata.resolve(promise, None)
            else:
                self._metadata.fail(promise, error)

        commit()
        return promise

    def _deleted(self, topic: Topic) -> dict[str, bytes]:
        alone = self._host.cluster.is_alone
        nodes = None if alone else {node for partition in topic.partitions for node in partition.replicas}
        return dict([deleted_topics.entry_of(topic.id, topic.name, nodes)])

    def clear(self, also: Iterable[str] = ()) -> list[Topic]:
        """Remove all topics, internal ones too, and return them; the caller deletes their logs.

        Blocks; no client may be served meanwhile. Raises StorageFailed, Conflict: nothing changed.

        Args:
            also: metadata keys to remove in the same commit.
        """
        topics = list(self)
        puts: dict[str, bytes | None] = dict.fromkeys(also)
        puts |= {PREFIX + topic.name: None for topic in topics}
        puts |= {key: entry for topic in topics for key, entry in self._deleted(topic).items()}
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
        self._check_room(name, count - have)
        self._added_to(topic, count, assignments)

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> Promise[Topic]:
        """Raise a topic's number of partitions to `count`. Raises as `check_growth`; durable as
        `create`.
        """
        promise: Promise[Topic] = Promise()
        attempts = ATTEMPTS_MAX
        reserved = 0

        def commit() -> None:
            nonlocal reserved
            self.check_growth(name, count, assignments)
            topic = self._topics[name]
            reserved = count - len(topic.partitions)
            grown = [partition.registration for partition in topic.partitions]
            grown += self._added_to(topic, count, assignments)
            record = self._record(topic.registration(grown))
            self._growing += reserved
            self._metadata.commit(f"add partitions to topic {name}", {PREFIX + name: record}, done)

        def done(error: KqueueError | None) -> None:
            nonlocal attempts
            attempts -= 1
            self._growing -= reserved
            if isinstance(error, Conflict) and attempts:
                try:
                    commit()  # its record was changed meanwhile
                except KqueueError as refused:
                    self._metadata.fail(promise, refused)
                return
            self._settle(promise, error, self._topics.get(name))

        commit()
        return promise

    def _added_to(
        self, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
    ) -> tuple[PartitionRegistration, ...]:
        have = [partition.registration for partition in topic.partitions]
        return self._assignment.of_growth(have, count - len(have), assignments)

    def record_with(self, name: str, overrides: Mapping[str, Any]) -> bytes:
        """Return a topic's record for the store with other settings of its own."""
        min_isr = int(self._config["min.insync.replicas"])
        return self._record(with_configs(self.get(name).registration(), _texts(overrides), min_isr))

    def refresh(self) -> SlicedWork[None]:
        """Put the broker's present values in force for all topics, one per step."""
        for topic in self:
            topic.configure(topic.config)
            yield None

    def follow_defaults(self, slices: SliceQueue) -> None:
        """From now on refresh all topics in `slices` when the broker has other values for them."""
        self._config.observe(topic_defaults(self._config), lambda: slices.add(self.refresh()))

    def _coordinator_topic(self, name: str) -> NewTopic:
        row = _COORDINATOR_TOPICS[name]
        alone = self._host.cluster.is_alone
        factor = 1 if alone else self._config[row.replication_factor]
        configs = row.configs(self._config, is_replicated=not alone)
        return NewTopic(name, self._config[row.partition_count], factor, configs=configs)

    def _check_counts(self, new: NewTopic) -> None:
        if new.assignments:
            if new.partitions != NO_COUNT or new.replication_factor != NO_COUNT:
                raise InvalidRequest(
                    "a topic with its own assignments takes neither a number of partitions nor a replication factor"
                )
            return
        if new.partitions != NO_COUNT and new.partitions < 1:
            raise InvalidPartitions(f"a topic has at least 1 partition, not {new.partitions}")

    def _check_room(self, name: str, count: int) -> None:
        limit = self._config["kqueue.max.partitions"]
        have = self._partition_count + self._growing
        if have + count > limit:
            raise PolicyViolation(
                f"topic {name}: {counted(count, 'more partition')} than the existing {have:,} "
                f"would exceed kqueue.max.partitions={limit}"
            )

    def _grow(self, topic: Topic, count: int) -> list[Partition]:
        added = [Partition(topic.name, index, self._host) for index in range(len(topic.partitions), count)]
        topic.partitions.extend(added)
        return added

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


def topic_defaults(config: Config) -> set[str]:
    """Return the broker settings from which topics derive values that they keep."""
    return {synonym.name for row in config.catalog.topic.values() for synonym in row.synonyms} | {DECOMPRESSED_MAX}


def _texts(overrides: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(format_value(value)) for name, value in overrides.items()}
