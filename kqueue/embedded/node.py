"""A broker of this process, as the program around it uses it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.base.clock import OffsetClock
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.settings import Scope, format_value
from kqueue.base.text import counted
from kqueue.broker.topics.topics import NO_COUNT, NewTopic
from kqueue.config.properties import keyword_name
from kqueue.embedded.argument_checks import check_kind, check_list, check_mapping, check_no_configs, near
from kqueue.embedded.inspection.mixin import InspectionMixin
from kqueue.embedded.request_log import RequestLog
from kqueue.embedded.security_arguments import SecurityArguments
from kqueue.network.interception import BrokerHooks

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.embedded.aio import AsyncNode
    from kqueue.embedded.inspection.record_appender import NewRecord
    from kqueue.embedded.inspection.record_lines import RecordSource
    from kqueue.embedded.inspection.records import Record
    from kqueue.embedded.schema_registry import EmbeddedRegistry

T = TypeVar("T")
TOPIC_ARGUMENTS = ("partitions", "replication_factor", "replicas")
MEANT_TOPIC_ARGUMENTS = {
    "num_partitions": "partitions",
    "partition": "partitions",
    "partition_count": "partitions",
    "replication": "replication_factor",
    "replica_assignments": "replicas",
    "replica_assignment": "replicas",
    "assignments": "replicas",
    "topic": "name",
}
"""The names that clients give the parameters of `create_topic`."""
ISSUED_IDS = IssuedIds()
"""Of all embedded brokers of this process, whose clients may go from one to the next."""


class EmbeddedNode(InspectionMixin):
    """The common base of `kqueue.Broker` and of each broker of a `kqueue.Cluster`.

    Thread: all methods may be called from any thread but the broker's own, and wait for it.
    """

    _server: Server

    def __init__(self, time: OffsetClock, security: SecurityArguments, number: int = 0) -> None:
        """Args: number: among the brokers that share `security`."""
        self._lock = threading.RLock()
        self._time = time
        self.requests = RequestLog(time, lambda: self._server.broker if hasattr(self, "_server") else None)
        """The requests of clients: ``broker.requests(api="Produce", topic="orders")``."""
        self._hooks = BrokerHooks(self.requests.record)
        self._security = security
        self._number = number

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""

    @cached_property
    def aio(self) -> AsyncNode:
        """The calls of this broker for coroutines: ``await broker.aio.create_topic("orders")``."""
        from kqueue.embedded.aio import AsyncNode

        return AsyncNode(self)

    @property
    def bootstrap(self) -> str:
        """The address for clients: ``127.0.0.1:40404``. Raises RuntimeError: it is not running."""
        self._check_running()
        return self._address()

    @property
    def port(self) -> int:
        """The port of `bootstrap`."""
        self._check_running()
        return self._endpoint()[1]

    def client_config(
        self,
        client: str,
        *,
        user: str | None = None,
        password: str | None = None,
        mechanism: str = "PLAIN",
        token: Callable[[], str] | None = None,
    ) -> dict[str, Any]:
        """Return what a client needs to connect: the keyword arguments of "kafka-python" and
        "aiokafka", or the dict of "confluent-kafka".

            KafkaProducer(**broker.client_config("kafka-python"))

        Args:
            user: whom the client is. With ``tls=True`` and without ``users`` it gets a certificate
                of this name; with ``users``, None is the first of them.
            password, mechanism: of listeners with SASL; None: the user's own password.
            token: returns a JSON Web Token, in place of user and password; the client authenticates
                by OAUTHBEARER.
        Raises: ValueError: another client. RuntimeError: it is not running.
        """
        return self._client_config(client, self.bootstrap, user, password, mechanism, token)

    def create_topic(
        self,
        /,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        replicas: Mapping[int, Sequence[int]] | None = None,
        **configs: object,
    ) -> None:
        """Create a topic; returns once it can be used. `configs`: its settings, such as
        ``cleanup_policy="compact"``.

        Args:
            partitions: how many; None: the broker's setting `num.partitions`.
            replication_factor: replicas of each partition; None: the broker's setting
                `default.replication.factor`.
            replicas: the node ids of each partition, the preferred leader first: ``{0: [2, 0]}``,
                instead of both numbers. None: the broker places them.

        Raises:
            TypeError, ValueError: no such argument, or an argument of another kind.
            TopicAlreadyExists, InvalidTopic, InvalidPartitions,
                InvalidReplicationFactor, InvalidReplicaAssignment, InvalidConfig.
        """
        topic = _new_topic(name, partitions, replication_factor, replicas, configs)

        async def create() -> None:
            await self._server.result(self._server.broker.topics.create(topic))

        self._call(create)

    def load_records(self, source: RecordSource, topic: str | None = None) -> list[Record]:
        """Append the records of lines of JSON, as `kqueue consume --format json` prints them:
        ``broker.load_records("orders.jsonl")``.

        A line is an object with "value" or "key", and optionally "topic", "partition", "timestamp"
        and "headers". Bytes are a text, null or ``{"base64": "…"}``; a "value" may be an object or
        a list, which stands for its JSON. Topics that do not exist are created.

        Args:
            source: a file; or an iterable of lines, as text, bytes or objects.
            topic: for all records; None: each line names its own.
        Returns: the records with their partitions and offsets, in the order of the lines.
        Raises:
            ValueError: a line is no record; nothing was appended. OSError: the file can't be read.
            UnknownTopicOrPartition: an existing topic lacks a partition; nothing was appended.
            As `Topic.produce`: a record was refused; those before it stay.
        """
        from kqueue.embedded.inspection.record_lines import load_lines

        return load_lines(source, topic, self._ensure_topic, self._append_records)

    def alter_config(self, /, **settings: object) -> None:
        """Change settings of the running broker, at once: ``broker.alter_config(log_retention_ms=
        1000)``. None gives one its value of the start again. `broker.topics[…].alter_config`
        changes a topic's.

        Durability: stored on return, where the broker has a data folder; `Broker.reset` removes
            them.
        Raises: InvalidRequest: a wrong value, or one that can't change at run time. SettingError:
            no such setting. All settings stay as they were.
        """

        from kqueue.base.config_resources import ResourceType
        from kqueue.broker.configs.dynamic_configs import ConfigResource
        from kqueue.embedded.inspection.topics import config_changes

        async def alter() -> None:
            broker = self._server.broker
            resource = ConfigResource(ResourceType.BROKER, str(broker.identity.node_id))
            changes = config_changes(settings)
            for change in changes:
                if change.value is not None:  # clients may set unknown names, for plugins; a keyword is a misspelt one
                    broker.config.catalog.find(change.name, Scope.BROKER)
            await self._server.result(broker.configs.alter(resource, changes))

        self._call(alter)

    def _ensure_topic(self, name: str, partitions_min: int) -> None:
        """Create a topic that does not exist, with so many partitions or the broker's default.

        Raises: UnknownTopicOrPartition: it exists, with fewer partitions.
        """
        if name not in self.topics:
            default = self._call(self._default_partitions)
            self.create_topic(name, max(default, partitions_min))
        elif self.topics[name].partitions < partitions_min:
            raise UnknownTopicOrPartition(
                f"topic {name} has {counted(self.topics[name].partitions, 'partition')}, expected {partitions_min}"
            )

    async def _default_partitions(self) -> int:
        return int(self._server.config["num.partitions"])

    def _append_records(self, topic: str, records: list[NewRecord]) -> list[Record]:
        return self.topics[topic].append_lines(records)

    def _client_config(
        self,
        client: str,
        bootstrap: str,
        user: str | None,
        password: str | None,
        mechanism: str,
        token: Callable[[], str] | None,
    ) -> dict[str, Any]:
        """Return what a client needs that connects to `bootstrap` as to this broker."""
        protocol = self._server.protocol(self._server.listener_names[0])
        return self._security.client_config(
            client, bootstrap, protocol, user=user, password=password, mechanism=mechanism, token=token
        )

    def _address(self) -> str:
        """`bootstrap`, also after it was stopped."""
        host, port = self._endpoint()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _endpoint(self) -> tuple[str, int]:
        return self._server.endpoint(self._server.listener_names[0])

    @abstractmethod
    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...

    @abstractmethod
    def _check_running(self) -> None: ...


def registry_url(registry: EmbeddedRegistry | None, owner: str) -> str:
    """Return the address of a schema registry. Raises RuntimeError: there is none, or it is not
    running.
    """
    if registry is None:
        raise RuntimeError(f"there is no schema registry: start one with {owner}(schema_registry=True)")
    return registry.url


def _new_topic(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    replicas: Mapping[int, Sequence[int]] | None,
    configs: Mapping[str, object],
) -> NewTopic:
    """Return the topic of `create_topic`. Raises TypeError, ValueError."""
    check_kind("name", name, str, "the name of one topic, a text")
    for argument, number in (("partitions", partitions), ("replication_factor", replication_factor)):
        if number is not None:
            check_kind(argument, number, int, "a number, or None for the broker's default")
    check_no_configs("create_topic", configs)
    for keyword in configs:
        meant = MEANT_TOPIC_ARGUMENTS.get(keyword) or near(keyword, TOPIC_ARGUMENTS)
        if meant is not None:
            raise TypeError(f"create_topic() has no argument {keyword!r}; did you mean {meant!r}?")
    values = {keyword_name(keyword): format_value(value) for keyword, value in configs.items()}
    if replicas is None:
        return NewTopic(
            name,
            NO_COUNT if partitions is None else partitions,
            NO_COUNT if replication_factor is None else replication_factor,
            configs=values,
        )
    check_mapping("replicas", replicas, "partition -> node ids, such as {0: [2, 0]}")
    for node_ids in replicas.values():
        check_list("replicas", node_ids, "partition -> node ids, such as {0: [2, 0]}")
    if partitions not in (None, NO_COUNT, len(replicas)):
        raise ValueError(f"partitions={partitions}: replicas= has {len(replicas)}, give one of both")
    if replication_factor not in (None, NO_COUNT) and any(len(ids) != replication_factor for ids in replicas.values()):
        raise ValueError(f"replication_factor={replication_factor}: replicas= has others, give one of both")
    return NewTopic(name, assignments=replicas, configs=values)
