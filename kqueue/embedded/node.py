"""A broker of this process, as the program around it uses it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.base.clock import OffsetClock
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.settings import format_value
from kqueue.broker.topics import NewTopic
from kqueue.config.properties import keyword_name
from kqueue.embedded.inspection.mixin import InspectionMixin
from kqueue.embedded.request_log import RequestLog
from kqueue.embedded.security_arguments import SecurityArguments
from kqueue.network.interception import BrokerHooks

if TYPE_CHECKING:
    from kqueue.app import Server

T = TypeVar("T")
FACTOR_DEFAULT = -1
ISSUED_IDS = IssuedIds()
"""Of all embedded brokers of this process, whose clients may go from one to the next."""


class Node(InspectionMixin):
    """What `kqueue.Broker` and each broker of a `kqueue.Cluster` have in common.

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
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = FACTOR_DEFAULT,
        replicas: Mapping[int, Sequence[int]] | None = None,
        **configs: object,
    ) -> None:
        """Create a topic; returns once it can be used. `configs`: its settings, such as
        ``cleanup_policy="compact"``.

        Args:
            replication_factor: replicas of each partition; -1: the default, which is all that a
                single broker has.
            replicas: the node ids of each partition, the preferred leader first: ``{0: [2, 0]}``,
                instead of both numbers. None: the broker places them.

        Raises: TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor,
            InvalidReplicaAssignment, InvalidConfig.
        """
        values = {keyword_name(keyword): format_value(value) for keyword, value in configs.items()}
        if replicas is None:
            topic = NewTopic(name, partitions, replication_factor, configs=values)
        else:
            topic = NewTopic(name, assignments=replicas, configs=values)

        async def create() -> None:
            await self._server.result(self._server.broker.topics.create(topic))

        self._call(create)

    def alter_config(self, **settings: object) -> None:
        """Change settings of the running broker, at once: ``broker.alter_config(log_retention_ms=
        1000)``. None gives one its value of the start again. `broker.topics[…].alter_config`
        changes a topic's.

        Durability: stored on return, where the broker has a data folder; `Broker.reset` removes
            them.
        Raises: InvalidRequest: a wrong value, or one that can't change at run time. SettingError:
            no such setting. All settings stay as they were.
        """

        from kqueue.base.config_resources import ResourceType
        from kqueue.broker.dynamic_configs import ConfigResource
        from kqueue.embedded.inspection.topics import config_changes

        async def alter() -> None:
            broker = self._server.broker
            resource = ConfigResource(ResourceType.BROKER, str(broker.node_id))
            await self._server.result(broker.configs.alter(resource, config_changes(settings)))

        self._call(alter)

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
