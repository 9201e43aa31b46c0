"""The interface through which the scenarios use a client.

An adapter maps it to one client and to all supported versions of it. Adapters do not retry, wait or
correct the client's behaviour.

Partitions are named by `Place`. Record timestamps are in milliseconds since 1970; timeouts are in
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]
Config = Mapping[str, Any]
"""Arguments of the client itself, as `client_config` of a broker returns them."""

# What clients can do, and in parentheses why some can not.
ACKS_NONE = "acks=0 (kafka-python 2.3 leaves such a request in its buffer)"
IDEMPOTENCE = "an idempotent producer (not in kafka-python 2.0)"
TRANSACTIONS = "transactions (not in kafka-python 2.0)"
RECONNECTING_TRANSACTIONS = (
    "transactions over a reconnect (not in kafka-python 2.0; 2.3 never reconnects to the coordinator)"
)
STATIC_MEMBERS = "static group members (not in kafka-python 2.0)"
READ_COMMITTED = "isolation levels (not in kafka-python 2.0)"
NULL_HEADERS = "header values of None (kafka-python refuses them)"
ADMIN_PARTITIONS = "adding partitions"
ADMIN_CONFIGS = "describing and altering settings"
ADMIN_GROUPS = "listing and describing groups"
ADMIN_DELETE_GROUPS = "deleting groups (not in aiokafka's admin client)"
ADMIN_DELETE_RECORDS = "deleting records (not in kafka-python 2.0 and in aiokafka before 0.11)"
ADMIN_LOG_DIRS = "describing data folders (in the admin client of kafka-python 3 only)"
CONSUMER_PROTOCOL = "consumer groups of the new protocol (in librdkafka only)"
SHARE_GROUPS = "share groups (in librdkafka 2.16 only)"
AUTHENTICATION = "authentication by PLAIN, SCRAM, tokens and certificates"
AUTHORIZATION = "operations that no ACL allows"
QUOTAS = "quotas (kafka-python 2.3 may wait for ever once a producer was told to wait)"
REAUTHENTICATION = "re-authentication on the same connection (not in kafka-python 2 and aiokafka: they reconnect)"
ADMIN_ACLS = "creating, describing and deleting ACLs (not in aiokafka's admin client)"
ADMIN_USERS = "setting the passwords of SCRAM users (not in kafka-python 2 and aiokafka)"

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC = 17
INVALID_TIMESTAMP = 32
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
POLICY_VIOLATION = 44
INVALID_PRODUCER_EPOCH = 47
NON_EMPTY_GROUP = 68
INVALID_RECORD = 87
PRODUCER_FENCED = 90
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53

HEARTBEAT_MS_MAX = 1_000
ALL_RECORDS = -1  # as an offset for deleting records


class BrokerError(Exception):
    """A protocol error that the client reports; `code` is the Kafka error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


@contextmanager
def numbered(error_class: type[Exception]) -> Iterator[None]:
    """Raise a client's errors that carry a Kafka error code as BrokerError."""
    try:
        yield
    except error_class as error:
        code = getattr(error, "errno", None)
        if isinstance(code, int) and code > 0:
            raise BrokerError(code, str(error)) from error
        raise


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Record(NamedTuple):
    """A record as the client returns it."""

    place: Place
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordMetadata(NamedTuple):
    """Partition and offset of a written record; `offset` is -1 if it is unknown (acks=0)."""

    partition: int
    offset: int


class OffsetAndTimestamp(NamedTuple):
    """The result of a lookup by timestamp."""

    offset: int
    timestamp_ms: int | None


class GroupDescription(NamedTuple):
    """A group as the client's admin describes it."""

    state: str
    members: int


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Options of a producer.

    `acks`: 0, 1 or -1 (all). `codec`: none, gzip, snappy, lz4 or zstd. `linger_ms` > 0 makes
    batches of several records. A producer with a `transactional_id` is initialized when it is made.
    `config`: the client's own arguments, which replace the others.
    """

    acks: int = -1
    codec: str = "none"
    idempotent: bool = False
    linger_ms: int = 0
    batch_bytes: int = 16_384
    request_bytes_max: int = 4_000_000
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    config: Config = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """Options of a consumer.

    `group` None: no group. `reset`: earliest or latest. `auto_commit_ms` None: manual commits only.
    `assignor`: one of the adapter's `assignors`; None is the client's default. `rack`: only clients
    of `tox -m cluster` have it. `config`: the client's own arguments, which replace the others.
    """

    group: str | None = None
    reset: str = "earliest"
    auto_commit_ms: int | None = None
    session_ms: int = 6_000
    instance_id: str | None = None
    assignor: str | None = None
    read_committed: bool = False
    fetch_bytes_min: int = 1
    fetch_wait_ms: int = 500
    partition_bytes_max: int = 1_048_576
    metadata_age_ms: int = 300_000
    poll_records_max: int = 500
    rack: str | None = None
    config: Config = field(default_factory=dict)


class PendingSend(Protocol):
    """A record that was sent and is not confirmed yet."""

    def result(self, timeout_s: float = 20) -> RecordMetadata:
        """Wait until the record is confirmed.

        Raises: BrokerError: the broker or the client rejected the record.
        """
        ...


class Producer(Protocol):
    """A producer; records of a partition keep the order of the `send` calls."""

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> PendingSend: ...

    def flush(self, timeout_s: float = 30) -> None:
        """Wait until all sends have completed; errors are raised by their `PendingSend`."""
        ...

    def begin_transaction(self) -> None: ...

    def send_offsets(self, offsets: Mapping[Place, int], consumer: Consumer) -> None:
        """Add offsets of the consumer's group to the transaction."""
        ...

    def commit_transaction(self) -> None:
        """Raises: BrokerError: the broker rejected it; fenced producers get PRODUCER_FENCED."""
        ...

    def abort_transaction(self) -> None: ...

    def abandon(self) -> None:
        """Stop without sending what waits; an open transaction stays open."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """A consumer.

    Thread: not thread-safe; use it from one thread.
    """

    def subscribe(self, topics: Sequence[str]) -> None: ...

    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe to all topics that match this regular expression (begins with ``^``)."""
        ...

    def assign(self, places: Iterable[Place]) -> None: ...

    def assignment(self) -> set[Place]: ...

    def poll(self, timeout_s: float) -> list[Record]:
        """Return at most `poll_records_max` records; [] if none arrived in time.

        Raises: BrokerError: the broker reported an error.
        """
        ...

    def seek(self, place: Place, offset: int) -> None: ...

    def seek_to_beginning(self, place: Place) -> None: ...

    def seek_to_end(self, place: Place) -> None: ...

    def position(self, place: Place) -> int: ...

    def pause(self, place: Place) -> None: ...

    def resume(self, place: Place) -> None: ...

    def beginning_offset(self, place: Place) -> int: ...

    def end_offset(self, place: Place) -> int: ...

    def offset_for_time(self, place: Place, timestamp_ms: int) -> OffsetAndTimestamp | None: ...

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        """Commit these offsets, or the current positions if None, and wait for the result."""
        ...

    def committed(self, place: Place) -> int | None: ...

    def group_metadata(self) -> Any:
        """What the same client's producer takes for this consumer's group."""
        ...

    def partitions(self, topic: str) -> set[int]: ...

    def close(self) -> None:
        """Leave the group, after a commit if commits are automatic."""
        ...


class Admin(Protocol):
    """An admin client; methods raise BrokerError.

    `features` of the adapter lists what this client version supports.
    """

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topics(self) -> set[str]: ...

    def describe_topic(self, name: str) -> dict[int, int]:
        """Return partition -> node id of its leader."""
        ...

    def brokers(self) -> list[tuple[str, int]]: ...

    def add_partitions(self, name: str, count: int) -> None: ...

    def topic_settings(self, name: str) -> dict[str, str | None]: ...

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Replace the topic's own configs by these.

        Clients that alter configs one by one keep the topic's other configs.
        """
        ...

    def groups(self) -> set[str]: ...

    def describe_group(self, group: str) -> GroupDescription: ...

    def delete_group(self, group: str) -> None: ...

    def delete_records(self, place: Place, before_offset: int) -> None: ...

    def log_dirs(self) -> list[dict[Place, int]]:
        """Return the bytes of each partition, by data folder."""
        ...

    def allow(self, user: str, operation: str, topic: str) -> None:
        """Create an ACL: the operation has the name that the client gives it, such as ``READ``."""
        ...

    def allowed(self, user: str) -> set[tuple[str, str]]:
        """Return operation and topic of the ACLs of a user."""
        ...

    def forbid(self, user: str) -> int:
        """Delete all ACLs of a user, return how many there were."""
        ...

    def set_password(self, user: str, password: str | None) -> None:
        """Set, or with None remove, the password for SCRAM-SHA-512."""
        ...

    def users(self) -> set[str]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Client:
    """One client version with its features and assignors."""

    name: str
    version: str
    features: frozenset[str]
    assignors: tuple[str, ...]

    def producer(self, bootstrap: str, options: ProducerOptions) -> Producer:
        raise NotImplementedError

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> Consumer:
        raise NotImplementedError

    def admin(self, bootstrap: str, config: Config) -> Admin:
        raise NotImplementedError

    def impatient(self, reasons: list[str]) -> Config:
        """Return the arguments of a producer that gives up within a few seconds. Clients that tell
        their reasons to a callback append them to `reasons`; the others log or raise them.
        """
        raise NotImplementedError

    def with_token(self, token: str, expires_s: float) -> Config:
        """Return the arguments of a client that authenticates by this token, which ends then, in
        seconds since 1970.
        """
        raise NotImplementedError
