"""`KafkaContainer` and `RedpandaContainer` of the package testcontainers, without a container.

    from kqueue.testing.containers import KafkaContainer  # before: testcontainers.kafka

    with KafkaContainer() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.get_bootstrap_server())

The classes have the constructors and methods of those of testcontainers, and start a broker in
memory in the process of the test. It needs neither Docker nor the package testcontainers.
Settings come from the same environment variables (`with_env`). A call that needs a container
(`exec`, files in it, networks of other containers) raises `NoContainer`, which names what to use
instead. `kafka.broker` is the `kqueue.Broker`, with faults, time and recorded requests.
"""

from __future__ import annotations

import itertools
import logging
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from kqueue.base.errors import KqueueError

if TYPE_CHECKING:
    from typing import Self

    from kqueue.embedded import Broker

LOG_LINES_MAX = 1000
LOGGER = "kqueue"
_PREFIXES = ("KAFKA_", "KQUEUE_")
# Where the broker of a container listens, has its data and its controller; what is for the JVM.
_OF_THE_CONTAINER = re.compile(
    r"(KAFKA|KQUEUE)_(LISTENERS|ADVERTISED_LISTENERS|LISTENER_SECURITY_PROTOCOL_MAP|INTER_BROKER_LISTENER_NAME|"
    r"CONTROLLER_\w+|PROCESS_ROLES|ZOOKEEPER_\w+|LOG_DIRS?|HEAP_OPTS|OPTS|JVM_\w+|JMX_\w+|GC_\w+|LOG4J_\w+)\Z"
)
_NUMBERS = itertools.count(1)
logger = logging.getLogger("kqueue.testing")


class NoContainer(KqueueError, NotImplementedError):
    """A call of testcontainers needs a container; the message says what to use instead."""


class ContainerNotStarted(KqueueError, RuntimeError):
    """The container was not started, or has been stopped."""


class BrokerContainer(ABC):
    """What `KafkaContainer` and `RedpandaContainer` have in common: the methods of testcontainers'
    `DockerContainer`. `with_*` methods return the object itself, and have an effect at the next
    `start`.

    Args:
        image: kept, and not pulled: kqueue is the broker, whatever the image.
        kwargs: as of testcontainers: `env` (a dict), `ports`, `volumes`, `command`, `name`,
            `network`, `network_aliases` and `transferables`. Others are kept and have no effect.
    """

    def __init__(self, image: str, **kwargs: Any) -> None:
        self.image = image
        self.env: dict[str, str] = dict(kwargs.pop("env", None) or {})
        self.ports: dict[str, int | None] = {}
        self.volumes: dict[str, dict[str, str]] = {}
        self.tmpfs: dict[str, str] = {}
        self._name: str | None = kwargs.pop("name", None)
        self._command: str | list[str] | None = kwargs.pop("command", None)
        self._broker: Broker | None = None
        self._was_started = False
        self._lines = _LogLines()
        self._id = f"kqueue-{next(_NUMBERS)}"
        self.with_exposed_ports(*(kwargs.pop("ports", None) or ()))
        for volume in kwargs.pop("volumes", None) or ():
            self.with_volume_mapping(*volume)
        if (network := kwargs.pop("network", None)) is not None:
            self.with_network(network)
        if aliases := kwargs.pop("network_aliases", None):
            self.with_network_aliases(*aliases)
        for transferable in kwargs.pop("transferables", None) or ():
            self.with_copy_into_container(*transferable)
        self._kwargs = kwargs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status}>"

    # --- before the start

    def with_env(self, key: str, value: str) -> Self:
        """Set a variable: ``KAFKA_NUM_PARTITIONS`` is the setting `num.partitions`, and so is
        ``KQUEUE_NUM_PARTITIONS``. Those for listeners, data folders, controllers and the JVM have
        no effect.
        """
        self.env[key] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set several variables; see `with_env`."""
        self.env.update(variables)
        return self

    def with_env_file(self, env_file: str | PathLike[str]) -> Self:
        """Set the variables of a file. Raises ModuleNotFoundError: python-dotenv is missing, which
        testcontainers reads it with, too.
        """
        from dotenv import dotenv_values  # on use: kqueue does not need it otherwise

        for key, value in dotenv_values(env_file).items():
            self.env[key] = value or ""
        return self

    def with_bind_ports(self, container: str | int, host: str | int | None = None) -> Self:
        """Have the broker listen on the port `host`; None: on a free one."""
        self.ports[str(container)] = None if host is None else _port_number(host)
        return self

    def with_exposed_ports(self, *ports: str | int) -> Self:
        """Note ports of the container. The broker's own port is among them."""
        for port in ports:
            self.ports[str(port)] = None
        return self

    def with_volume_mapping(self, host: str | PathLike[str], container: str, mode: str = "ro") -> Self:
        """Have settings that name a file below `container`, such as a key store, read the one below
        `host`.
        """
        self.volumes[fspath(host)] = {"bind": container, "mode": mode}
        return self

    def with_tmpfs_mount(self, container_path: str, size: str | None = None) -> Self:
        """Kept, and without effect: all data are in memory."""
        self.tmpfs[container_path] = size or ""
        return self

    def with_command(self, command: str | list[str]) -> Self:
        """Kept, and without effect: no command is run."""
        self._command = command
        return self

    def with_name(self, name: str) -> Self:
        """Kept, and without effect."""
        self._name = name
        return self

    def with_kwargs(self, **kwargs: Any) -> Self:
        """Kept, and without effect."""
        self._kwargs = kwargs
        return self

    def maybe_emulate_amd64(self) -> Self:
        """Return the object: the broker runs on each processor."""
        return self

    def waiting_for(self, strategy: object) -> Self:
        """Return the object: `start` returns when clients can connect, whatever `strategy` is."""
        return self

    def with_network(self, network: object) -> Self:
        """Raises NoContainer."""
        _refuse("with_network", "other containers do not reach a broker on loopback: keep a container for these tests")

    def with_network_aliases(self, *aliases: str) -> Self:
        """Raises NoContainer."""
        _refuse("with_network_aliases", "clients of this machine connect to get_bootstrap_server()")

    def with_copy_into_container(self, transferable: object, destination_in_container: str, mode: int = 0o644) -> Self:
        """Raises NoContainer."""
        _refuse("with_copy_into_container", "settings name files of this machine, by with_env or with_volume_mapping")

    # --- start and stop

    def start(self) -> Self:
        """Start a broker in memory; returns when clients can connect. Does nothing if it runs.

        Raises: SettingError: a variable has a bad value, looks like a setting of security and is
            none, or asks for what kqueue refuses. ListenFailed: the port of `with_bind_ports` is in
            use.
        """
        if self._broker is None:
            from kqueue.embedded import Broker

            self._lines.clear()
            self._lines.attach()
            try:
                self._broker = Broker(settings=self._settings()).start()
            except BaseException:
                self._lines.detach()
                raise
            self._was_started = True
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker, with all its data. Does nothing if it does not run."""
        broker, self._broker = self._broker, None
        if broker is not None:
            try:
                broker.stop()
            finally:
                self._lines.detach()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def broker(self) -> Broker:
        """The broker that runs. Raises ContainerNotStarted."""
        if self._broker is None:
            raise ContainerNotStarted("the container is not started: call start(), or use it by `with`")
        return self._broker

    # --- what runs

    def get_container_host_ip(self) -> str:
        """Return the address of loopback that the broker advertises."""
        return self.broker.bootstrap.rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """Return the port on which the broker listens in place of the container's.

        Raises: ConnectionError: the broker has no such port. ContainerNotStarted.
        """
        broker, own = self.broker, self._own_port()
        if _port_number(port) != own:
            raise ConnectionError(f"port {port} of the container is not served: the broker has only {own}")
        return broker.port

    def get_container_id(self) -> str:
        """Return a name that is unique in the process. Raises ContainerNotStarted."""
        self.broker  # noqa: B018  it runs
        return self._id

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return standard output, which is empty, and the last `LOG_LINES_MAX` lines that kqueue
        logged in this process since the start. Raises ContainerNotStarted.
        """
        if not self._was_started:
            raise ContainerNotStarted("the container is not started, and has no log")
        return b"", self._lines.text().encode()

    @property
    def status(self) -> str:
        """``not_started``, ``running`` or ``exited``."""
        if self._broker is not None:
            return "running"
        return "exited" if self._was_started else "not_started"

    def reload(self) -> None:
        """Does nothing: `status` is never old."""
        return

    def get_container_info(self) -> None:
        """Return None: there is nothing for Docker to inspect."""
        return

    # --- what only a container has

    def exec(self, command: object) -> NoReturn:
        """Raises NoContainer."""
        _refuse("exec", "use container.broker, e.g. .create_topic('orders', 3) or .topics['orders'].records(), "
                "or an admin client")  # fmt: skip

    def wait(self) -> NoReturn:
        """Raises NoContainer."""
        _refuse("wait", "the broker runs until stop()")

    def get_wrapped_container(self) -> NoReturn:
        """Raises NoContainer."""
        _refuse(
            "get_wrapped_container", "use container.broker: restart() for a restart, kqueue.testing.faults for more"
        )

    def get_docker_client(self) -> NoReturn:
        """Raises NoContainer."""
        _refuse("get_docker_client", "Docker is not used")

    def copy_into_container(self, transferable: object, destination_in_container: str, mode: int = 0o644) -> None:
        """Raises NoContainer."""
        _refuse("copy_into_container", "settings name files of this machine")

    def copy_from_container(self, source_in_container: str, destination_on_host: Path) -> None:
        """Raises NoContainer."""
        _refuse("copy_from_container", "container.broker.snapshot(folder) copies all data")

    def create_file(self, content: bytes, path: str) -> None:
        """Raises NoContainer."""
        _refuse("create_file", "settings name files of this machine")

    def tc_start(self) -> None:
        """Does nothing: no script is copied into a container."""
        return

    @abstractmethod
    def _own_port(self) -> int:
        """The port that the broker of the container has."""

    def _listener(self) -> tuple[str, str]:
        """The name of the broker's listener, and its security protocol."""
        return "PLAINTEXT", "PLAINTEXT"

    def _settings(self) -> dict[str, object]:
        name, protocol = self._listener()
        settings = settings_of(self.env, name)
        for setting, value in settings.items():
            settings[setting] = self._path_on_host(value)
        return {
            **settings,
            "listeners": f"{name}://localhost:{self._bound_port() or 0}",
            "advertised.listeners": f"{name}://127.0.0.1:0",
            "listener.security.protocol.map": f"{name}:{protocol}",
        }

    def _bound_port(self) -> int | None:
        own = self._own_port()
        return next((host for port, host in self.ports.items() if host and _port_number(port) == own), None)

    def _path_on_host(self, value: str) -> str:
        for host, mount in self.volumes.items():
            inside = mount["bind"].rstrip("/")
            if value == inside or value.startswith(f"{inside}/"):
                return host + value[len(inside) :]
        return value


class KafkaContainer(BrokerContainer):
    """The `KafkaContainer` of testcontainers: a Kafka for tests, by kqueue.

    Args:
        image: see `BrokerContainer`. To serve only the API versions of an older Kafka, set
            ``with_env("KQUEUE_AS_VERSION", "3.9")``.
        port: the container's port, for `get_exposed_port`; the broker listens on a free one.
        wait_strategy_check_string: kept, and without effect.
        listener_name, security_protocol: of the listener for clients. Others than PLAINTEXT need
            their settings by `with_env`, as in a container.
    """

    TC_START_SCRIPT = "/tc-start.sh"
    MIN_KRAFT_TAG = "7.0.0"

    def __init__(
        self,
        image: str = "confluentinc/cp-kafka:7.6.0",
        port: int = 9093,
        wait_strategy_check_string: str = r".*\[KafkaServer id=\d+\] started.*",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        **kwargs: Any,
    ) -> None:
        """Raises: ValueError: `port_to_expose`, the former name of `port`."""
        if "port_to_expose" in kwargs:
            raise ValueError("port_to_expose is called port")
        super().__init__(image, **kwargs)
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.wait_for = re.compile(wait_strategy_check_string)
        self.kraft_enabled = False
        self.cluster_id = ""
        self.with_exposed_ports(port)
        for key, value in _KAFKA_DEFAULTS.items():
            self.env.setdefault(key, value)

    def with_kraft(self) -> Self:
        """Kept, and without effect: the metadata need neither ZooKeeper nor a quorum."""
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Kept, and without effect: the broker makes up an id of its own."""
        self.cluster_id = cluster_id
        return self

    def configure(self) -> None:
        """Does nothing: `start` reads the variables."""

    def start(self, timeout: int = 30) -> Self:
        """Do as `BrokerContainer.start`. `timeout`: has no effect, the start takes no second."""
        return super().start()

    def get_bootstrap_server(self) -> str:
        """Return the address for clients, ``127.0.0.1:40404``. Raises ContainerNotStarted."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def _own_port(self) -> int:
        return self.port

    def _listener(self) -> tuple[str, str]:
        return self.listener_name, self.security_protocol


class RedpandaContainer(BrokerContainer):
    """The `RedpandaContainer` of testcontainers: a Kafka for tests, by kqueue."""

    TC_START_SCRIPT = "/var/lib/redpanda/tc-start.sh"

    def __init__(self, image: str = "docker.redpanda.com/redpandadata/redpanda:v23.1.13", **kwargs: Any) -> None:
        super().__init__(image, **kwargs)
        self.redpanda_port = 9092
        self.schema_registry_port = 8081
        self.wait_for = re.compile(r".*Started Kafka API server.*")
        self.with_exposed_ports(self.redpanda_port, self.schema_registry_port)

    def start(self, timeout: int = 10) -> Self:
        """Do as `BrokerContainer.start`. `timeout`: has no effect, the start takes no second."""
        return super().start()

    def get_bootstrap_server(self) -> str:
        """Return the address for clients, ``127.0.0.1:40404``. Raises ContainerNotStarted."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.redpanda_port)}"

    def get_schema_registry_address(self) -> str:
        """Raises NoContainer."""
        _refuse("get_schema_registry_address", "run a registry of its own, on get_bootstrap_server()")

    def _own_port(self) -> int:
        return self.redpanda_port


_KAFKA_DEFAULTS: Mapping[str, str] = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}


def settings_of(env: Mapping[str, str], listener: str) -> dict[str, str]:
    """Return the settings that the variables of a container mean, by name.

    `KAFKA_*` and `KQUEUE_*` mean settings; other variables none. A variable of no setting is
    logged, as by a broker.

    Args: listener: the name of the broker's listener, for `KAFKA_LISTENER_NAME_*`.
    Raises: SettingError: a variable looks like a setting of security and is none, or two give one
        setting different values.
    """
    from kqueue.config.environment import ENVIRONMENT_PREFIX
    from kqueue.config.properties import from_environment

    variables = {
        ENVIRONMENT_PREFIX + key.partition("_")[2]: str(value)
        for key, value in env.items()
        if key.startswith(_PREFIXES) and not _OF_THE_CONTAINER.match(key)
    }
    return {name: str(given.value) for name, given in from_environment(variables, [listener.upper()]).items()}


class _LogLines(logging.Handler):
    """The last lines of kqueue's loggers while it is attached."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=LOG_LINES_MAX)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def attach(self) -> None:
        logging.getLogger(LOGGER).addHandler(self)

    def detach(self) -> None:
        logging.getLogger(LOGGER).removeHandler(self)

    def clear(self) -> None:
        self._lines.clear()

    def text(self) -> str:
        return "".join(f"{line}\n" for line in tuple(self._lines))


def _port_number(port: str | int) -> int:
    """Return the number of ``9092`` or ``9092/tcp``. Raises ValueError."""
    text = str(port).partition("/")[0]
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise ValueError(f"{port!r}: expected a port from 1 to 65535, as a number or as '9092/tcp'")
    return int(text)


def _refuse(call: str, instead: str) -> NoReturn:
    raise NoContainer(f"{call}: there is no container, the broker runs in this process: {instead}")
