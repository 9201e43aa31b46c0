"""What the scenarios ask of a client; an adapter hides how each client, and each version of it,
does it.

An adapter adds nothing of its own: it neither retries nor waits nor mends what its client does.
Partitions are named by `Place`; times are in milliseconds since 1970 where a record is meant, in
seconds where a wait is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]

ACKS_NONE = "acks=0 (kafka-python 2.3 leaves such a request in its buffer)"
IDEMPOTENCE = "an idempotent producer"
STATIC_MEMBERS = "static group members"
READ_COMMITTED = "isolation levels"
NULL_HEADERS = "header values of None"
ADMIN_PARTITIONS = "adding partitions"
ADMIN_CONFIGS = "describing and altering settings"
ADMIN_GROUPS = "listing and describing groups"
ADMIN_DELETE_GROUPS = "deleting groups"
ADMIN_DELETE_RECORDS = "deleting records"
ADMIN_LOG_DIRS = "describing data folders"

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
NON_EMPTY_GROUP = 68
INVALID_RECORD = 87

HEARTBEAT_MS_MAX = 1_000
ALL_RECORDS = -1  # in place of an offset, where records are deleted


class BrokerError(Exception):
    """The client reports an error of the protocol; `code` is its number there."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


@contextmanager
def numbered(error_class: type[Exception]) -> Iterator[None]:
    """Those errors of a client that carry a number of the protocol, as BrokerError."""
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
    """A record as the client hands it over."""

    place: Place
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordMetadata(NamedTuple):
    """Where a record went; `offset` is -1 where the client does not learn it (acks=0)."""

    partition: int
    offset: int


class OffsetAndTimestamp(NamedTuple):
    """Answer of a search by time."""

    offset: int
    timestamp_ms: int | None


class GroupDescription(NamedTuple):
    """A group as the client's admin describes it."""

    state: str
    members: int


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`acks`: 0, 1 or -1 (all). `codec`: none, gzip, snappy, lz4 or zstd. `linger_ms` > 0 makes
    batches of several records.
    """

    acks: int = -1
    codec: str = "none"
    idempotent: bool = False
    linger_ms: int = 0
    batch_bytes: int = 16_384
    request_bytes_max: int = 4_000_000


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """`group` None: no group at all. `reset`: earliest or latest. `auto_commit_ms` None: commits by
    hand only.

    `assignor`: one of the adapter's `assignors`; None is the client's own default.
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


class PendingSend(Protocol):
    """A record on its way."""

    def result(self, timeout_s: float = 20) -> RecordMetadata:
        """Wait until it is confirmed. Raises BrokerError: the broker, or the client on its behalf,
        said no.
        """
        ...


class Producer(Protocol):
    """Order of `send` calls is the order of records in a partition."""

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
        """Wait until nothing is on its way; errors show in the `PendingSend`s."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """One thread at a time."""

    def subscribe(self, topics: Sequence[str]) -> None: ...

    def subscribe_pattern(self, pattern: str) -> None:
        """All topics whose name begins with a match of this regular expression (it starts with
        ``^``).
        """
        ...

    def assign(self, places: Iterable[Place]) -> None: ...

    def assignment(self) -> set[Place]: ...

    def poll(self, timeout_s: float) -> list[Record]:
        """What is there, at most `poll_records_max` records; [] if nothing came in time. Raises
        BrokerError.
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
        """Wait until these offsets, or None: the positions, are committed."""
        ...

    def committed(self, place: Place) -> int | None: ...

    def partitions(self, topic: str) -> set[int]: ...

    def close(self) -> None:
        """Leave the group, committing first where commits are automatic."""
        ...


class Admin(Protocol):
    """Methods raise BrokerError. What a version lacks is missing from the adapter's `features`."""

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topics(self) -> set[str]: ...

    def describe_topic(self, name: str) -> dict[int, int]:
        """Partition -> leader's node id."""
        ...

    def brokers(self) -> list[tuple[str, int]]: ...

    def add_partitions(self, name: str, count: int) -> None: ...

    def topic_settings(self, name: str) -> dict[str, str | None]: ...

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """These, and no others, are the topic's own settings afterwards (or more, where the client
        alters one by one).
        """
        ...

    def groups(self) -> set[str]: ...

    def describe_group(self, group: str) -> GroupDescription: ...

    def delete_group(self, group: str) -> None: ...

    def delete_records(self, place: Place, before_offset: int) -> None: ...

    def log_dirs(self) -> list[dict[Place, int]]:
        """Bytes of each partition, by data folder."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Client:
    """One client at one version, with the features and assignors that it brings."""

    name: str
    version: str
    features: frozenset[str]
    assignors: tuple[str, ...]

    def producer(self, bootstrap: str, options: ProducerOptions) -> Producer:
        raise NotImplementedError

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> Consumer:
        raise NotImplementedError

    def admin(self, bootstrap: str) -> Admin:
        raise NotImplementedError
