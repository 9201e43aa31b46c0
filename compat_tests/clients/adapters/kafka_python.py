"""The adapter of kafka-python: 2.0.2, the last 2.x version, and 3.x."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from compat_tests.clients.adapters.contract import (
    ACKS_NONE,
    ADMIN_ACLS,
    ADMIN_CONFIGS,
    ADMIN_DELETE_GROUPS,
    ADMIN_DELETE_RECORDS,
    ADMIN_GROUPS,
    ADMIN_LOG_DIRS,
    ADMIN_PARTITIONS,
    ADMIN_USERS,
    AUTHENTICATION,
    AUTHORIZATION,
    HEARTBEAT_MS_MAX,
    IDEMPOTENCE,
    QUOTAS,
    READ_COMMITTED,
    REAUTHENTICATION,
    RECONNECTING_TRANSACTIONS,
    STATIC_MEMBERS,
    TRANSACTIONS,
    Admin,
    Client,
    Config,
    Consumer,
    ConsumerOptions,
    Headers,
    OffsetAndTimestamp,
    Place,
    ProducerOptions,
    Record,
    RecordMetadata,
    numbered,
)
from compat_tests.clients.security import connecting

try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
except ImportError:
    CooperativeStickyAssignor = None

VERSION = tuple(int(part) for part in kafka.__version__.split(".")[:3])
ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    # kafka-python 2.0.2 calls len() on an iterator when a third member joins: a TypeError in Python
    # 3.
    **({"sticky": StickyPartitionAssignor} if VERSION >= (2, 1) else {}),
    **({"cooperative-sticky": CooperativeStickyAssignor} if CooperativeStickyAssignor else {}),
}
REQUEST_TIMEOUT_MS = 30_000
IMPATIENT_MS = 1_500


def refusals() -> AbstractContextManager[None]:
    """Raise kafka-python's errors as BrokerError."""
    return numbered(KafkaError)


def _point(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


def _with_metadata(offsets: Mapping[Place, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    # OffsetAndMetadata grew a third field, the leader epoch, in 2.1.
    rest = ("",) if VERSION < (2, 1) else ("", -1)
    return {_point(place): OffsetAndMetadata(offset, *rest) for place, offset in offsets.items()}


class _Pending:
    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self, timeout_s: float = 20) -> RecordMetadata:
        with refusals():
            metadata = self._future.get(timeout_s)
        return RecordMetadata(metadata.partition, metadata.offset)


class _Producer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        settings: dict[str, Any] = {}
        if options.idempotent or VERSION >= (3,):
            settings["enable_idempotence"] = options.idempotent or options.transactional_id is not None
        if VERSION < (3,):
            settings["retries"] = 20  # 2.0.2 does not retry by default
        if options.transactional_id is not None:
            settings["transactional_id"] = options.transactional_id
            settings["transaction_timeout_ms"] = options.transaction_timeout_ms
        self._producer = KafkaProducer(
            **{
                **connecting("kafka-python", bootstrap),
                "acks": options.acks if options.acks >= 0 else "all",
                "compression_type": None if options.codec == "none" else options.codec,
                "linger_ms": options.linger_ms,
                "batch_size": options.batch_bytes,
                "max_request_size": options.request_bytes_max,
                "request_timeout_ms": REQUEST_TIMEOUT_MS,
                "max_block_ms": REQUEST_TIMEOUT_MS,
                "reconnect_backoff_max_ms": 500,
                **settings,
                **options.config,
            }
        )
        if options.transactional_id is not None:
            with refusals():
                self._producer.init_transactions()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> _Pending:
        with refusals():
            future = self._producer.send(
                topic, value, key=key, headers=list(headers), partition=partition, timestamp_ms=timestamp_ms
            )
        return _Pending(future)

    def flush(self, timeout_s: float = 30) -> None:
        self._producer.flush(timeout=timeout_s)

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def send_offsets(self, offsets: Mapping[Place, int], consumer: Consumer) -> None:
        with refusals():
            self._producer.send_offsets_to_transaction(_with_metadata(offsets), consumer.group_metadata())

    def commit_transaction(self) -> None:
        with refusals():
            self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        with refusals():
            self._producer.abort_transaction()

    def abandon(self) -> None:
        # close(0) raises if records wait, and leaves its sender running
        self._producer._sender.force_close()
        self._producer.close(timeout=10)

    def close(self) -> None:
        self._producer.close(timeout=10)


class _Consumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        settings: dict[str, Any] = {}
        if options.assignor is not None:
            settings["partition_assignment_strategy"] = [ASSIGNORS[options.assignor]]
        if options.instance_id is not None:
            settings["group_instance_id"] = options.instance_id
        if options.rack is not None:
            settings["client_rack"] = options.rack
        if options.read_committed:
            settings["isolation_level"] = "read_committed"
        self._consumer = KafkaConsumer(
            **{
                **connecting("kafka-python", bootstrap),
                "group_id": options.group,
                "auto_offset_reset": options.reset,
                "enable_auto_commit": options.auto_commit_ms is not None,
                "auto_commit_interval_ms": options.auto_commit_ms or 5_000,
                "session_timeout_ms": options.session_ms,
                "heartbeat_interval_ms": min(options.session_ms // 4, HEARTBEAT_MS_MAX),
                "request_timeout_ms": REQUEST_TIMEOUT_MS,
                "fetch_min_bytes": options.fetch_bytes_min,
                "fetch_max_wait_ms": options.fetch_wait_ms,
                "max_partition_fetch_bytes": options.partition_bytes_max,
                "metadata_max_age_ms": options.metadata_age_ms,
                "max_poll_records": options.poll_records_max,
                "reconnect_backoff_max_ms": 500,
                **settings,
                **options.config,
            }
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        if VERSION >= (3,):
            # A leader that joins before its metadata has the topic may never assign it, on Kafka
            # too.
            for topic in topics:
                self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe(pattern=pattern)

    def assign(self, places: Iterable[Place]) -> None:
        self._consumer.assign([_point(place) for place in places])

    def assignment(self) -> set[Place]:
        return {Place(*point) for point in self._consumer.assignment()}

    def poll(self, timeout_s: float) -> list[Record]:
        with refusals():
            batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [
            Record(Place(*point), record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
            for point, records in batches.items()
            for record in records
        ]

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(_point(place), offset)

    def seek_to_beginning(self, place: Place) -> None:
        self._consumer.seek_to_beginning(_point(place))

    def seek_to_end(self, place: Place) -> None:
        self._consumer.seek_to_end(_point(place))

    def position(self, place: Place) -> int:
        with refusals():
            offset: int = self._consumer.position(_point(place))
        return offset

    def pause(self, place: Place) -> None:
        self._consumer.pause(_point(place))

    def resume(self, place: Place) -> None:
        self._consumer.resume(_point(place))

    def beginning_offset(self, place: Place) -> int:
        offset: int = self._consumer.beginning_offsets([_point(place)])[_point(place)]
        return offset

    def end_offset(self, place: Place) -> int:
        offset: int = self._consumer.end_offsets([_point(place)])[_point(place)]
        return offset

    def offset_for_time(self, place: Place, timestamp_ms: int) -> OffsetAndTimestamp | None:
        offset = self._consumer.offsets_for_times({_point(place): timestamp_ms})[_point(place)]
        return OffsetAndTimestamp(offset.offset, offset.timestamp) if offset is not None else None

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        with refusals():
            self._consumer.commit(None if offsets is None else _with_metadata(offsets))

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._consumer.committed(_point(place))
        return offset

    def group_metadata(self) -> Any:
        """Versions before 3 take the name of the group only."""
        return self._consumer.group_metadata() if VERSION >= (3,) else self._consumer.config["group_id"]

    def partitions(self, topic: str) -> set[int]:
        return set(self._consumer.partitions_for_topic(topic) or ())

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Client):
    """kafka-python of whichever version is installed."""

    def producer(self, bootstrap: str, options: ProducerOptions) -> _Producer:
        return _Producer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> _Consumer:
        return _Consumer(bootstrap, options)

    def admin(self, bootstrap: str, config: Config) -> Admin:
        admin: Admin = import_module(
            f"compat_tests.clients.adapters.kafka_python_admin{3 if VERSION >= (3,) else 2}"
        ).Admin(bootstrap, config)
        return admin

    def impatient(self, reasons: list[str]) -> Config:
        rest = {"bootstrap_timeout_ms": IMPATIENT_MS} if VERSION >= (3,) else {"api_version_auto_timeout_ms": 1_000}
        return {"max_block_ms": IMPATIENT_MS, **rest}

    def with_token(self, token: str, expires_s: float) -> Config:
        module = "kafka.net.sasl.oauth" if VERSION >= (3,) else "kafka.sasl.oauth"
        base = import_module("kafka.oauth.abstract" if VERSION < (2, 1) else module).AbstractTokenProvider
        provider = type("Provider", (base,), {"token": lambda _: token})()
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}


def _features() -> Iterator[str]:
    yield from (ADMIN_PARTITIONS, ADMIN_CONFIGS, ADMIN_GROUPS, ADMIN_DELETE_GROUPS, ADMIN_ACLS)
    yield from (AUTHENTICATION, AUTHORIZATION)
    if not (2, 1) <= VERSION < (3,):
        yield from (ACKS_NONE, QUOTAS)
    if VERSION >= (2, 1):
        yield from (IDEMPOTENCE, TRANSACTIONS, READ_COMMITTED, ADMIN_DELETE_RECORDS, STATIC_MEMBERS)
    if VERSION >= (3,):
        # 2.3's KafkaClient.await_ready raises if the connection was closed, and opens no other;
        # Sender._maybe_send_transactional_request then drops the request: the call never returns.
        yield from (ADMIN_LOG_DIRS, RECONNECTING_TRANSACTIONS, REAUTHENTICATION, ADMIN_USERS)


def adapter() -> Client:
    return KafkaPython("kafka-python", kafka.__version__, frozenset(_features()), tuple(ASSIGNORS))
