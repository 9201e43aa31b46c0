"""Shared by the client commands: the bootstrap option, the connection check, error messages."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from kqueue.base.addresses import Address, parse_addresses
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import InvalidTopic, KqueueError, SettingError
from kqueue.base.extras import install_hint
from kqueue.base.names import check_topic
from kqueue.base.settings import is_secret

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from kqueue.client import Client, ClusterMetadata
    from kqueue.config.client_security import ClientSecurity

DEFAULT_BOOTSTRAP = "localhost:9092"
CLIENT_ID = "kqueue-cli"
ACCESS = "kqueue.client_access"
"""Where a command's context keeps its `ClientAccess`."""
BOOTSTRAP_TIMEOUT_MS = 10_000
PROBE_TIMEOUT_S = 3.0
AGAIN_S = 0.2
REFUSED = "ECONNREFUSED"
OLDEST_CLIENT = (3, 0, 10)  # older ones cannot add partitions
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# Messages for the protocol errors that users meet; other errors show the client's own text.
MESSAGES = {
    "UnknownTopicOrPartitionError": "there is no such topic or partition; `kqueue topics list` shows all topics",
    "TopicAlreadyExistsError": "the topic exists already",
    "InvalidTopicError": "that can't be a topic's name",
    "GroupIdNotFoundError": "there is no such group; `kqueue groups list` shows all groups",
    "NonEmptyGroupError": "the group has members; stop its consumers first",
    "GroupSubscribedToTopicError": "members of the group read this topic; stop its consumers first",
    "UnknownMemberIdError": "the group has members; stop its consumers first",
    "MessageSizeTooLargeError": "a record is larger than the topic allows (max.message.bytes)",
    "RecordListTooLargeError": "a request is larger than the broker allows",
    "InvalidRecordError": "the topic refuses such records (records of a compacted topic need a key)",
    "KafkaTimeoutError": "the broker does not answer",
    "IncompatibleBrokerVersion": "this broker does not serve what the command needs",
}


class BrokerNotFound(click.ClickException):
    """No server listens at any of the addresses, or it is not a broker."""


class ClientAccess(NamedTuple):
    """How a command connects.

    `security`: None: without TLS and SASL. `properties`: Kafka's client properties that say so.
    """

    security: ClientSecurity | None = None
    properties: Mapping[str, str] = {}


_access_of_process = ClientAccess()
"""That of the last command: threads have no context of click, and a process runs one command."""


def _keep_access(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Have `client_access` return what the file of --command-config and variables say."""
    global _access_of_process
    _access_of_process = context.meta[ACCESS] = _read_access(context, parameter, path)


def _read_access(context: click.Context, parameter: click.Parameter, path: Path | None) -> ClientAccess:
    if path is None and not any(name.startswith("KQUEUE_CLIENT_") for name in os.environ):
        return ClientAccess()
    from kqueue.config.client_properties import read_client_properties, security_of
    from kqueue.security.protocols import SecurityProtocol

    try:
        properties = read_client_properties(path, os.environ)
        security = security_of(properties, path)
    except SettingError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    plain = security.protocol is SecurityProtocol.PLAINTEXT
    return ClientAccess() if plain else ClientAccess(security, properties)


def client_access() -> ClientAccess:
    """Return how the running command connects, in each of its threads."""
    context = click.get_current_context(silent=True)
    if context is None:
        is_main = threading.current_thread() is threading.main_thread()
        return ClientAccess() if is_main else _access_of_process
    found: ClientAccess = context.meta.get(ACCESS, ClientAccess())
    return found


def client_security() -> ClientSecurity | None:
    """Return how the running command connects; None: without TLS and SASL."""
    return client_access().security


def client_arguments() -> dict[str, Any]:
    """Return what kafka-python's clients need to connect securely. Raises ClickException."""
    security = client_security()
    if security is None:
        return {}
    from kqueue.config.client_security import kafka_python_arguments

    try:
        return kafka_python_arguments(security)
    except SettingError as error:
        raise click.ClickException(str(error)) from None


def bootstrap_option(command: F) -> F:
    """Add ``-b/--bootstrap-server`` to a command, as its argument `bootstrap`, and
    ``--command-config``, which `client_access` returns.
    """
    command = click.option(
        "--command-config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        envvar="KQUEUE_COMMAND_CONFIG",
        show_envvar=True,
        expose_value=False,
        callback=_keep_access,
        help="File with Kafka's client properties for TLS and SASL: security.protocol, ssl.*, sasl.*. "
        "KQUEUE_CLIENT_SECURITY_PROTOCOL and so on set single ones.",
    )(command)
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        default=DEFAULT_BOOTSTRAP,
        envvar="KQUEUE_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        help="The broker to talk to; of a cluster, any of its brokers.",
    )(command)


def checked_topic(name: str) -> str:
    """Return `name` if it is a valid topic name. Raises BadParameter: names the violated rule."""
    try:
        return check_topic(name)
    except InvalidTopic as error:
        raise click.BadParameter(str(error), param_hint="TOPIC") from None


def parse_name_values(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Split ``NAME=VALUE`` texts. Raises BadParameter: a text has no equals sign, or no name."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = "one without a =" if is_secret(text) else repr(text)
            raise click.BadParameter(f"{shown}: write NAME=VALUE", param_hint=option)
        pairs.append((name.strip(), value))
    return pairs


def require(module: str, *extras: str) -> None:
    """Check that `module` is installed. Raises ClickException: names the extras that install it."""
    if importlib.util.find_spec(module) is None:
        raise click.ClickException(
            f"this command needs packages that are not installed; get them with: {install_hint(*extras)}"
        )


def require_client() -> None:
    """Check that a recent kafka-python is installed. Raises ClickException: missing or too old."""
    require("kafka", "cli")
    from kafka.version import __version__

    if tuple(map(int, re.findall(r"\d+", __version__)[:3])) < OLDEST_CLIENT:
        raise click.ClickException(
            f"kafka-python {__version__} is too old for this command; get it with: {install_hint('cli')}"
        )


def addresses(bootstrap: str) -> list[Address]:
    """Parse a bootstrap list. Raises BadParameter: names the part that is no address."""
    try:
        return list(parse_addresses(bootstrap))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None


def find_broker(bootstrap: str) -> None:
    """Check that a server listens at one of the addresses, before a client runs into its timeout.

    Raises: BrokerNotFound: with the reason for each address. ClickException: TLS or SASL failed.
    """
    reasons = []
    for host, port in addresses(bootstrap):
        try:
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S).close()
            _check_security(Address(host, port))
            return
        except OSError as error:
            reasons.append((f"{host}:{port}", error.strerror or str(error)))
    if len(reasons) == 1:
        raise broker_not_found(bootstrap, reasons[0][1])
    raise broker_not_found(bootstrap, "; ".join(map(": ".join, reasons)))


def _check_security(address: Address) -> None:
    """Connect with TLS and SASL where the command does, because our own client says what is wrong.
    Raises ClickException.
    """
    security = client_security()
    if security is None:
        return
    from kqueue.client.connection import Connection
    from kqueue.client.deadline import Deadline
    from kqueue.client.options import ClientOptions

    options = ClientOptions(bootstrap=str(address), client_id=CLIENT_ID, security=security)
    try:
        Connection(address, options, Deadline(BOOTSTRAP_TIMEOUT_MS)).close()
    except KqueueError as error:
        raise click.ClickException(str(error)) from None


def broker_not_found(bootstrap: str, reason: str) -> BrokerNotFound:
    """Return the error for a bootstrap list without a broker, with what to do."""
    return BrokerNotFound(
        f"no broker answers at {bootstrap} ({reason}). Start one with `kqueue serve`, or name another with "
        "--bootstrap-server HOST:PORT."
    )


@contextlib.contextmanager
def plain_errors(bootstrap: str) -> Iterator[None]:
    """Turn exceptions of the client library into one sentence and exit status 1."""
    from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

    try:
        yield
    except KafkaTimeoutError as error:
        if "bootstrap" in str(error):
            raise broker_not_found(
                bootstrap,
                "a server listens there, but it does not answer in Kafka's protocol in time; if it needs TLS or a "
                "password, give them by --command-config FILE",
            ) from None
        raise click.ClickException(f"the broker at {bootstrap} did not answer in time ({_words(error)})") from None
    except KafkaConnectionError as error:
        raise click.ClickException(f"the connection to {bootstrap} broke: {_words(error)}") from None
    except KafkaError as error:
        raise click.ClickException(explain(error)) from None


def explain(error: BaseException | type[BaseException], message: str | None = None) -> str:
    """Return the message for an error: the broker's, else that of `MESSAGES`, else the client's."""
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    if message:
        return message.rstrip(".")
    if name in MESSAGES:
        return MESSAGES[name]
    return name if isinstance(error, type) else _words(error)


def explain_code(code: int, message: str | None = None) -> str:
    """Return the message for an error code of a response, as `explain` does."""
    from kafka.errors import for_code

    return explain(for_code(code), message)


def print_error(name: str, reason: str) -> None:
    """Print one line on standard error; the broker's message may already name the topic."""
    click.echo(f"Error: {reason}" if f"topic {name!r}" in reason else f"Error: {name}: {reason}", err=True)


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:297]}..."


def cluster_metadata(bootstrap: str) -> ClusterMetadata:
    """Return the cluster's id, controller and brokers. Raises ClickException.

    It uses `kqueue.client`, because kafka-python fails on brokers before Kafka 3.7.
    """
    with own_client(bootstrap) as client:
        return client.metadata([])


@contextlib.contextmanager
def own_client(bootstrap: str, client_id: str = CLIENT_ID) -> Iterator[Client]:
    """Yield a client of `kqueue.client`; errors in the block become one sentence."""
    from kqueue.client import Client
    from kqueue.client.errors import BrokerRefused

    find_broker(bootstrap)
    try:
        with Client(bootstrap, client_id=client_id, security=client_security()) as client:
            yield client
    except KqueueError as error:
        message = error.broker_message if isinstance(error, BrokerRefused) else None
        raise click.ClickException(message or str(error)) from None


@contextlib.contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """Yield an administration client for `bootstrap`; errors in the block become one sentence."""
    require_client()
    find_broker(bootstrap)
    from kafka import KafkaAdminClient

    with (
        plain_errors(bootstrap),
        KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","),
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
            client_id=CLIENT_ID,
            **client_arguments(),
        ) as client,
    ):
        yield cast("KafkaAdminClient", PersistentAdmin(client))


class PersistentAdmin:
    """An administration client whose calls are made again while the broker that it picked refuses
    connections: of a cluster, one that has ended and is not known to. Nothing was sent then.
    """

    def __init__(self, client: KafkaAdminClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return functools.partial(_again_if_refused, found) if callable(found) else found


def _again_if_refused(call: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    from kafka.errors import KafkaConnectionError

    deadline_s = monotonic_s() + BOOTSTRAP_TIMEOUT_MS / 1000
    while True:
        try:
            return call(*arguments, **keywords)
        except KafkaConnectionError as error:
            if REFUSED not in str(error) or monotonic_s() >= deadline_s:
                raise
        time.sleep(AGAIN_S)
