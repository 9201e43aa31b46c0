"""Shared by the client commands: connections whose errors become one sentence, checks of arguments.

Commands import the options from here too; plugins' commands do.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import InvalidTopic, KqueueError
from kqueue.base.extras import install_hint
from kqueue.base.names import check_topic
from kqueue.base.settings import is_secret
from kqueue.cli.broker_wait import CLIENT_ID as CLIENT_ID
from kqueue.cli.broker_wait import MUTE, broker_not_found
from kqueue.cli.broker_wait import BrokerNotFound as BrokerNotFound
from kqueue.cli.broker_wait import find_broker as find_broker
from kqueue.cli.client_access import addresses as addresses
from kqueue.cli.client_access import bootstrap_option as bootstrap_option
from kqueue.cli.client_access import client_access as client_access
from kqueue.cli.client_access import client_arguments as client_arguments
from kqueue.cli.client_access import client_security as client_security
from kqueue.cli.error_texts import explain as explain
from kqueue.cli.error_texts import explain_code as explain_code
from kqueue.cli.error_texts import remedy_of, words
from kqueue.cli.name_suggestions import no_topic

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from kqueue.client import Client, ClusterMetadata
    from kqueue.client.errors import BrokerRefused

BOOTSTRAP_TIMEOUT_MS = 10_000
AGAIN_S = 0.2
REFUSED = "ECONNREFUSED"
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
OLDEST_CLIENT = (3, 0, 10)  # older ones cannot add partitions
T = TypeVar("T")


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
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the package around it
        spec = None
    if spec is None:
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


@contextlib.contextmanager
def plain_errors(bootstrap: str) -> Iterator[None]:
    """Turn exceptions of the client library into one sentence and exit status 1."""
    from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

    try:
        yield
    except KafkaTimeoutError as error:
        if "bootstrap" in str(error):
            raise broker_not_found(bootstrap, MUTE) from None
        raise click.ClickException(f"the broker at {bootstrap} did not answer in time ({words(error)})") from None
    except KafkaConnectionError as error:
        raise click.ClickException(f"the connection to {bootstrap} broke: {words(error)}") from None
    except KafkaError as error:
        raise click.ClickException(explain(error)) from None


def print_error(name: str, reason: str) -> None:
    """Print one line on standard error; the broker's message may already name the topic."""
    click.echo(f"Error: {reason}" if f"topic {name!r}" in reason else f"Error: {name}: {reason}", err=True)


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
    except BrokerRefused as error:
        raise click.ClickException(_refusal(bootstrap, error)) from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None


def _refusal(bootstrap: str, error: BrokerRefused) -> str:
    """Return the broker's sentence, else the client's, with what to do where that is known."""
    if error.code_name == UNKNOWN_TOPIC and error.topic is not None and error.partition is None:
        return no_topic(bootstrap, error.topic)
    said = error.broker_message or str(error)
    remedy = remedy_of(error.code_name)
    return f"{said.rstrip('.')}: {remedy}" if remedy else said


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
        attribute = getattr(self._client, name)
        return functools.partial(_again_if_refused, attribute) if callable(attribute) else attribute


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
