"""Topics of a running broker, for tests: reading and appending records without a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.names import INTERNAL_TOPICS
from kqueue.base.settings import format_value
from kqueue.base.text import counted, short_repr
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.config.properties import keyword_name
from kqueue.embedded.argument_checks import check_kind, check_list, check_no_configs
from kqueue.embedded.inspection import record_appender
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.embedded.inspection.record_appender import Bytes, Headers, NewRecord, Time, Value
from kqueue.embedded.inspection.records import Record, scan

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.replicas.partition import Partition
    from kqueue.broker.topics import topics as broker_topics

T = TypeVar("T")
APPEND_RECORDS_MAX = 2000


class Backlog(NamedTuple):
    """The unread backlog of a topic with a bound.

    `state`: open, refusing or slowing. `group`: the slowest; None: no group has read the topic.
    `partitions`: unread messages by partition.
    """

    state: str
    messages: int
    bytes: int
    group: str | None
    partitions: dict[int, int]


class Topic:
    """One topic of a running broker. It holds no data: every call reads the present state.

    In a cluster it shows the partitions of which the broker has a replica, as far as that is.

    Raises: NoSuchName (a KeyError): the topic was deleted. RuntimeError: the broker is not running.
    """

    def __init__(self, name: str, ask: RunOnBroker, partitioners: record_appender.Partitioners) -> None:
        self._name = name
        self._ask = ask
        self._partitioners = partitioners

    @property
    def name(self) -> str:
        """Name of the topic."""
        return self._name

    def __repr__(self) -> str:
        try:
            sizes = self._of_partitions(lambda one: one.high_watermark - one.log_start_offset)
        except (KeyError, RuntimeError) as error:
            return f"<topic {self._name}: {error}>"
        return f"<topic {self._name}: {counted(len(sizes), 'partition')}, {counted(sum(sizes.values()), 'offset')}>"

    @property
    def partitions(self) -> int:
        """Number of partitions; they are numbered from 0."""
        return self._look(lambda topic: len(topic.partitions))

    @property
    def config(self) -> dict[str, object]:
        """Effective settings by name: the topic's value, else the broker's, else the default."""
        return self._look(lambda topic: {name: topic.config[name] for name in topic.config})

    @property
    def own_config(self) -> dict[str, object]:
        """The settings that the topic itself has, by name."""
        return self._look(lambda topic: dict(topic.config.overrides))

    def alter_config(self, **settings: object) -> None:
        """Change settings, at once: ``broker.topics["orders"].alter_config(retention_ms=1000,
        segment_bytes=None)``. None unsets one; those that are not named stay.

        Durability: stored on return, where the broker has a data folder.
        Raises: InvalidConfig: all settings stay as they were.
        """

        async def work(server: Server) -> None:
            _find(server, self._name)
            resource = ConfigResource(ResourceType.TOPIC, self._name)
            await server.result(server.broker.configs.alter(resource, config_changes(settings)))

        self._ask(work)

    @property
    def start_offsets(self) -> dict[int, int]:
        """Partition -> log start offset, the first that can be read."""
        return self._of_partitions(lambda partition: partition.log_start_offset)

    @property
    def local_start_offsets(self) -> dict[int, int]:
        """Partition -> first offset that is on this broker's disk, or in its memory: later than the
        log start where the tier has the rest.
        """
        return self._of_partitions(lambda partition: partition.log.local_start_offset)

    @property
    def end_offsets(self) -> dict[int, int]:
        """Partition -> high watermark, the offset of the next record. It includes all earlier
        appends: a pending flush is awaited.
        """

        async def work(server: Server) -> dict[int, int]:
            partitions = _replicas(_find(server, self._name))
            await appended_visible(server, partitions)
            return {partition.index: partition.high_watermark for partition in partitions}

        return self._ask(work)

    @property
    def backlog(self) -> Backlog | None:
        """The records that groups have not read yet, of a topic with a bound
        (`kqueue.backlog.messages.max`, `kqueue.backlog.bytes.max`), and what producers get; None:
        the topic has no bound.
        """

        async def work(server: Server) -> Backlog | None:
            backlog = server.broker.upkeep.backlogs.of(_find(server, self._name).name)
            if backlog is None:
                return None
            described = backlog.describe()
            return Backlog(
                described.state.value,
                described.messages,
                described.bytes,
                described.group,
                {one.partition: one.messages for one in described.partitions},
            )

        return self._ask(work)

    def records(
        self,
        partition: int | None = None,
        *,
        start: int | None = None,
        stop: int | None = None,
        read_committed: bool = True,
    ) -> list[Record]:
        """Return the records that consumers can read now, ordered by partition and offset.

        Args:
            partition: read this one alone.
            start, stop: offsets in each partition, from `start` to `stop` (exclusive).
            read_committed: leave out the records of aborted transactions, and those from the start
                of the first open one on, as consumers with this isolation level do. False: all
                records. Markers of transactions are never among them.
        Raises: UnknownTopicOrPartition: no such partition. CorruptBatch: data on disk is damaged.
        Memory: all records; use `scan` for a topic that is larger than memory.
        """
        return list(self.scan(partition, start=start, stop=stop, read_committed=read_committed))

    def scan(
        self,
        partition: int | None = None,
        *,
        start: int | None = None,
        stop: int | None = None,
        read_committed: bool = True,
    ) -> Iterator[Record]:
        """Yield the records of `records`, read in portions of about 1 MiB. Records appended after a
        partition was begun are left out.
        """
        _check_partition(partition)
        own = self._look(lambda topic: [one.index for one in _replicas(topic)]) if partition is None else [partition]
        for index in own:
            yield from scan(self._ask, self._name, index, start, stop, read_committed=read_committed)

    def produce(
        self,
        value: Value,
        key: Bytes = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp: Time = None,
    ) -> Record:
        """Append one record, without a client: ``broker.topics["orders"].produce("two coffees",
        key="table 4")``.

        Args:
            value: bytes, text (encoded in UTF-8), None (a tombstone), or a dict or list, which is
                sent as JSON: ``produce({"coffees": 2})``.
            key: bytes, text or None.
            headers: a dict, or (name, value) pairs, whose values are bytes, text or None.
            partition: None: the topic's partitioner chooses, by the key as Kafka's clients do.
            timestamp: ms since 1970 or a datetime; None: now.
        Returns: the record with its partition and offset.
        Durability: as acks=all; consumers can read it on return.
        Raises:
            TypeError, ValueError: an argument of another type; the message says what it takes.
            InvalidRecord, RecordTooLarge, InvalidTimestamp: refused, as for a client.
            InvalidTopic: the topic is the broker's own.
            UnknownTopicOrPartition: no such partition.
        """
        return self._seed([record_appender.seed(value, key, headers, timestamp)], partition)[0]

    def produce_all(
        self, values: Iterable[Value | tuple[Bytes, Value]], *, partition: int | None = None
    ) -> list[Record]:
        """Append many records in few batches: values, or (key, value) pairs (tuples); otherwise as
        `produce`.

        If a record is refused, those before it stay in the topic.

        Returns: the records with their partitions and offsets, in the given order.
        """
        check_list("values", values, "a list of values, or of (key, value) pairs")
        return self._seed([_seed_of(one) for one in values], partition)

    def delete(self) -> None:
        """Delete the topic, as an admin client does.

        Raises: InvalidTopic: it is the broker's own. TopicDeletionDisabled.
        """

        async def work(server: Server) -> None:
            _find(server, self._name)
            await server.result(server.broker.topics.delete(self._name))

        self._ask(work)

    def append_lines(self, records: list[NewRecord]) -> list[Record]:
        """Append what was read from lines; see `EmbeddedNode.load_records`."""
        return self._seed(records, None)

    def chosen_partitions(self, records: list[NewRecord]) -> list[int]:
        """Return the partition that each record would be appended to."""

        def choose(topic: broker_topics.Topic) -> list[int]:
            return [record_appender.choose_partition(topic, one, self._partitioners) for one in records]

        return self._look(choose)

    def _seed(self, seeds: list[NewRecord], partition: int | None) -> list[Record]:
        _check_partition(partition)

        def append(part: list[NewRecord]) -> list[Record]:
            async def work(server: Server) -> list[Record]:
                return await record_appender.append(
                    server, _find(server, self._name), part, partition, self._partitioners
                )

            return self._ask(work)

        # in parts, between which clients are served
        return [
            record
            for begin in range(0, len(seeds), APPEND_RECORDS_MAX)
            for record in append(seeds[begin : begin + APPEND_RECORDS_MAX])
        ]

    def _look(self, look: Callable[[broker_topics.Topic], T]) -> T:
        async def work(server: Server) -> T:
            return look(_find(server, self._name))

        return self._ask(work)

    def _of_partitions(self, look: Callable[[Partition], int]) -> dict[int, int]:
        return self._look(lambda topic: {partition.index: look(partition) for partition in _replicas(topic)})


class Topics(Mapping[str, Topic]):
    """All topics by name, at the present moment. The broker's own topics can be looked up by name,
    but are not listed.
    """

    def __init__(self, ask: RunOnBroker) -> None:
        self._ask = ask
        self._partitioners: record_appender.Partitioners = {}

    def __getitem__(self, name: str) -> Topic:
        async def work(server: Server) -> None:
            _find(server, name)

        self._ask(work)
        return Topic(name, self._ask, self._partitioners)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<topics: {', '.join(self._names()) or 'none'}>"

    def _names(self) -> list[str]:
        async def work(server: Server) -> list[str]:
            return _listed(server)

        return self._ask(work)


def _check_partition(partition: int | None) -> None:
    if partition is not None:
        check_kind("partition", partition, int, "the number of a partition, or None")


def _seed_of(value: Value | tuple[Bytes, Value]) -> NewRecord:
    """Return the record of a value, or of a (key, value) pair. Raises TypeError."""
    if not isinstance(value, tuple):
        return record_appender.seed(value)
    if len(value) != 2:
        raise TypeError(f"values: expected values, or (key, value) pairs, found {short_repr(value)} among them")
    return record_appender.seed(value[1], value[0])


def config_changes(settings: Mapping[str, object]) -> list[ConfigChange]:
    """Return the changes that keyword arguments ask for; None unsets a setting.

    Raises: TypeError: they are given as one dict.
    """
    check_no_configs("alter_config", settings)
    return [
        ConfigChange(
            ConfigOperation.DELETE if value is None else ConfigOperation.SET, keyword_name(name), format_value(value)
        )
        for name, value in settings.items()
    ]


def _find(server: Server, name: str) -> broker_topics.Topic:
    topic = server.broker.topics.find(name)
    if topic is None:
        raise NoSuchName("topic", name, _listed(server))
    return topic


def _replicas(topic: broker_topics.Topic) -> list[Partition]:
    return [partition for partition in topic.partitions if partition.has_replica]


def _listed(server: Server) -> list[str]:
    return [name for name in server.broker.topics.names() if name not in INTERNAL_TOPICS]
