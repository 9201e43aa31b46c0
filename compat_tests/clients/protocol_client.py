"""Direct protocol requests for what a test checks and no tested client exposes.

This module depends on none of the tested clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from compat_tests.clients.adapters.contract import BrokerError, Place
from compat_tests.clients.security import own_security
from compat_tests.waits import look_until
from kqueue.client import Client, ClientOptions, NewTopic, TopicPartition
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.client.metadata import NO_LEADER
from kqueue.records.batch import Record, iter_batches
from kqueue.records.builder import build_batch

CALL_TIMEOUT_MS = 20_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@contextmanager
def asking(bootstrap: str) -> Iterator[Client]:
    """Open a client for a few calls; raises broker errors as BrokerError."""
    with Client(bootstrap, client_id="compat_tests", timeout_ms=CALL_TIMEOUT_MS, security=own_security()) as client:
        try:
            yield client
        except BrokerRefused as error:
            raise BrokerError(error.code, str(error)) from error


def create_topic(bootstrap: str, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until every partition has a leader, as each broker shows it.

    A leader that has not heard of its partition yet refuses records, and a producer that is not
    idempotent changes the order of those that it sends again.

    Raises: BrokerError: the broker rejected the topic.
    """
    with asking(bootstrap) as client:
        brokers = client.create_topics([NewTopic(name, partitions, -1, settings or {})]).brokers
    for broker in brokers.values() if len(brokers) > 1 else ():
        with asking(str(broker.address)) as client:
            look_until(
                lambda client=client: client.metadata([name]).topics.get(name),  # type: ignore[misc]
                lambda topic: topic and all(row.leader != NO_LEADER for row in topic.partitions.values()),
                f"leaders of {name} at {broker.address}",
            )


def committed(bootstrap: str, group: str, places: Sequence[Place]) -> list[int]:
    """Return the committed offset of each partition, 0 where there is none.

    A consumer that is no member of the group may miss that its coordinator moved (aiokafka).
    """
    wanted = [TopicPartition(*place) for place in places]
    with asking(bootstrap) as client:
        offsets = client.committed(group, wanted, stable=False)
    return [0 if (offset := offsets.get(one)) is None else offset.offset for one in wanted]


def refusal_of_produce(bootstrap: str, place: Place) -> str:
    """Try for a second to write a record with acks=all; return the error that prevents it."""
    wanted = TopicPartition(*place)
    with Client(bootstrap, client_id="compat_tests", timeout_ms=1_000, security=own_security()) as client:
        try:
            client.produce({wanted: bytes(build_batch([Record(0, 0, None, b"refused")]))})
        except ClientError as error:
            return str(error)
    raise AssertionError(f"{place} was written")


def served_apis(bootstrap: str) -> dict[int, tuple[int, int]]:
    """Return the advertised versions: API key -> lowest and highest version."""
    options = ClientOptions(bootstrap=bootstrap, security=own_security())
    connection = Connection(options.addresses[0], options, Deadline(CALL_TIMEOUT_MS))
    connection.close()
    return connection.served


def codecs_of(bootstrap: str, place: Place) -> set[str]:
    """Return the codecs of the first batches of a partition, as the broker stores them."""
    wanted = TopicPartition(*place)
    with asking(bootstrap) as client:
        fetched = client.fetch({wanted: 0})[wanted]
    return {CODECS[header.codec_id] for _, header in iter_batches(fetched.records)}
