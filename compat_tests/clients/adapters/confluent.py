"""The adapter of confluent-kafka, which wraps librdkafka and its C threads."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from compat_tests.clients.adapters.confluent_errors import CALL_TIMEOUT_S, QUIET, bounded, refusals, refuse
from compat_tests.clients.adapters.contract import (
    ACKS_NONE,
    ADMIN_ACLS,
    ADMIN_CONFIGS,
    ADMIN_DELETE_GROUPS,
    ADMIN_DELETE_RECORDS,
    ADMIN_GROUPS,
    ADMIN_PARTITIONS,
    ADMIN_USERS,
    AUTHENTICATION,
    AUTHORIZATION,
    CONSUMER_PROTOCOL,
    HEARTBEAT_MS_MAX,
    IDEMPOTENCE,
    NULL_HEADERS,
    QUOTAS,
    READ_COMMITTED,
    REAUTHENTICATION,
    RECONNECTING_TRANSACTIONS,
    SHARE_GROUPS,
    STATIC_MEMBERS,
    TRANSACTIONS,
    Admin,
    BrokerError,
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
)
from compat_tests.clients.security import connecting

COORDINATOR_MOVES = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors of a poll that only tell: the client looks for the coordinator again."""


class _Pending:
    def __init__(self, producer: confluent_kafka.Producer) -> None:
        self._producer = producer
        self.outcome: RecordMetadata | BrokerError | None = None

    def deliver(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.outcome = refuse(error)
        else:
            offset = message.offset()
            self.outcome = RecordMetadata(message.partition(), offset if offset is not None and offset >= 0 else -1)

    def result(self, timeout_s: float = 20) -> RecordMetadata:
        deadline = time.monotonic() + timeout_s
        while self.outcome is None and time.monotonic() < deadline:
            with refusals():
                self._producer.poll(0.05)
        if self.outcome is None:
            raise TimeoutError(f"no delivery report within {timeout_s} s")
        if isinstance(self.outcome, BrokerError):
            raise self.outcome
        return self.outcome


class _Producer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        settings: dict[str, Any] = {}
        if options.transactional_id is not None:
            settings = {
                "transactional.id": options.transactional_id,
                "transaction.timeout.ms": options.transaction_timeout_ms,
            }
        self._producer = confluent_kafka.Producer(
            {
                **QUIET,
                **connecting("confluent-kafka", bootstrap),
                "acks": options.acks,
                "compression.type": options.codec,
                "enable.idempotence": options.idempotent or options.transactional_id is not None,
                "linger.ms": options.linger_ms,
                "batch.size": options.batch_bytes,
                "message.max.bytes": options.request_bytes_max,
                "retry.backoff.max.ms": 500,
                **settings,
                **options.config,
            }
        )
        if options.transactional_id is not None:
            with refusals():
                self._producer.init_transactions(CALL_TIMEOUT_S)

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
        pending = _Pending(self._producer)
        where = {} if partition is None else {"partition": partition}
        when = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        with refusals():
            self._producer.produce(
                topic, value, key=key, headers=list(headers), on_delivery=pending.deliver, **where, **when
            )
        self._producer.poll(0)
        return pending

    def flush(self, timeout_s: float = 30) -> None:
        with refusals():
            left = self._producer.flush(timeout_s)
        if left:
            raise TimeoutError(f"records still on their way after {timeout_s} s")

    def begin_transaction(self) -> None:
        with refusals():
            self._producer.begin_transaction()

    def send_offsets(self, offsets: Mapping[Place, int], consumer: Consumer) -> None:
        points = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        group = consumer.group_metadata()
        with refusals():
            bounded(lambda: self._producer.send_offsets_to_transaction(points, group, CALL_TIMEOUT_S))

    def commit_transaction(self) -> None:
        with refusals():
            self._producer.commit_transaction(CALL_TIMEOUT_S)

    def abort_transaction(self) -> None:
        with refusals():
            self._producer.abort_transaction(CALL_TIMEOUT_S)

    def abandon(self) -> None:
        with contextlib.suppress(KafkaException):
            self._producer.purge()

    def close(self) -> None:
        with contextlib.suppress(KafkaException):  # a fenced producer raises it at every call
            self._producer.flush(10)


class _Consumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        settings: dict[str, Any] = {}
        if options.assignor is not None:
            settings["partition.assignment.strategy"] = options.assignor
        if options.instance_id is not None:
            settings["group.instance.id"] = options.instance_id
        if options.rack is not None:
            settings["client.rack"] = options.rack
        self._batch = options.poll_records_max
        self._held_back: deque[Any] = deque()
        self._assigned: set[Place] = set()
        self._consumer = confluent_kafka.Consumer(
            {
                **QUIET,
                **settings,
                **connecting("confluent-kafka", bootstrap),
                "group.id": options.group or "not used",
                "auto.offset.reset": options.reset,
                "enable.auto.commit": options.auto_commit_ms is not None and options.group is not None,
                "auto.commit.interval.ms": options.auto_commit_ms or 5_000,
                "session.timeout.ms": options.session_ms,
                "heartbeat.interval.ms": min(options.session_ms // 4, HEARTBEAT_MS_MAX),
                "isolation.level": "read_committed" if options.read_committed else "read_uncommitted",
                "fetch.min.bytes": options.fetch_bytes_min,
                "fetch.wait.max.ms": options.fetch_wait_ms,
                "max.partition.fetch.bytes": options.partition_bytes_max,
                "topic.metadata.refresh.interval.ms": options.metadata_age_ms,
                **options.config,
            }
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe([pattern])

    def assign(self, places: Iterable[Place]) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    def assignment(self) -> set[Place]:
        return {Place(point.topic, point.partition) for point in self._consumer.assignment()}

    def poll(self, timeout_s: float) -> list[Record]:
        """Return the next records.

        librdkafka returns errors in sequence with records. An error that follows records is raised
        by the next call.
        """
        messages = self._held_back
        if not messages:
            # consume(n, timeout) waits for all n records: wait for the first, then fetch the
            # available ones.
            first = self._consumer.poll(timeout_s)
            if first is None:
                return []
            messages.extend([first, *self._consumer.consume(self._batch - 1, 0)])
        if messages[0].error():
            error = messages.popleft().error()
            if error.code() in COORDINATOR_MOVES:
                return []
            raise refuse(error)
        records = []
        while messages and not messages[0].error():
            records.append(self._record(messages.popleft()))
        return records

    @staticmethod
    def _record(message: Any) -> Record:
        kind, timestamp_ms = message.timestamp()
        return Record(
            Place(message.topic(), message.partition()),
            message.offset(),
            -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )

    def seek(self, place: Place, offset: int) -> None:
        self._seek(place, offset)

    def seek_to_beginning(self, place: Place) -> None:
        self._seek(place, OFFSET_BEGINNING)

    def seek_to_end(self, place: Place) -> None:
        self._seek(place, OFFSET_END)

    def _seek(self, place: Place, offset: int) -> None:
        """Seek, with retries while librdkafka's fetcher thread starts or restarts the partition."""
        self._held_back.clear()
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                self._consumer.seek(TopicPartition(*place, offset))
                return
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError._STATE, KafkaError._OUTDATED) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def position(self, place: Place) -> int:
        (topic_partition,) = self._consumer.position([TopicPartition(*place)])
        return topic_partition.offset

    def pause(self, place: Place) -> None:
        self._consumer.pause([TopicPartition(*place)])

    def resume(self, place: Place) -> None:
        self._consumer.resume([TopicPartition(*place)])

    def beginning_offset(self, place: Place) -> int:
        with refusals():
            return self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=CALL_TIMEOUT_S)[0]

    def end_offset(self, place: Place) -> int:
        with refusals():
            return self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=CALL_TIMEOUT_S)[1]

    def offset_for_time(self, place: Place, timestamp_ms: int) -> OffsetAndTimestamp | None:
        with refusals():
            (topic_partition,) = self._consumer.offsets_for_times(
                [TopicPartition(*place, timestamp_ms)], timeout=CALL_TIMEOUT_S
            )
        if topic_partition.error:
            raise refuse(topic_partition.error)
        return OffsetAndTimestamp(topic_partition.offset, None) if topic_partition.offset >= 0 else None

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        with refusals():
            if offsets is None:
                done = self._consumer.commit(asynchronous=False)
            else:
                points = [TopicPartition(*place, offset) for place, offset in offsets.items()]
                done = self._consumer.commit(offsets=points, asynchronous=False)
        for point in done:
            if point.error:
                raise refuse(point.error)

    def committed(self, place: Place) -> int | None:
        with refusals():
            (topic_partition,) = self._consumer.committed([TopicPartition(*place)], timeout=CALL_TIMEOUT_S)
        if topic_partition.error:
            raise refuse(topic_partition.error)
        return topic_partition.offset if topic_partition.offset >= 0 else None

    def group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def partitions(self, topic: str) -> set[int]:
        return set(self._consumer.list_topics(topic, timeout=CALL_TIMEOUT_S).topics[topic].partitions)

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # already closed
            self._consumer.close()


class Confluent(Client):
    """confluent-kafka of whichever version is installed."""

    def producer(self, bootstrap: str, options: ProducerOptions) -> _Producer:
        return _Producer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> _Consumer:
        return _Consumer(bootstrap, options)

    def admin(self, bootstrap: str, config: Config) -> Admin:
        from compat_tests.clients.adapters import (
            confluent_admin,
        )  # only some scenarios need it, and what it imports differs by version

        return confluent_admin.Admin(bootstrap, config)

    def impatient(self, reasons: list[str]) -> Config:
        return {"message.timeout.ms": 1_500, "error_cb": lambda error: reasons.append(str(error))}

    def with_token(self, token: str, expires_s: float) -> Config:
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (token, expires_s)}


FEATURES = frozenset(
    {
        ACKS_NONE,
        IDEMPOTENCE,
        TRANSACTIONS,
        RECONNECTING_TRANSACTIONS,
        STATIC_MEMBERS,
        READ_COMMITTED,
        NULL_HEADERS,
        ADMIN_PARTITIONS,
        AUTHENTICATION,
        AUTHORIZATION,
        QUOTAS,
        ADMIN_CONFIGS,
        ADMIN_GROUPS,
        ADMIN_DELETE_GROUPS,
        ADMIN_DELETE_RECORDS,
        ADMIN_ACLS,
        ADMIN_USERS,
        CONSUMER_PROTOCOL,
        REAUTHENTICATION,
        *([SHARE_GROUPS] if hasattr(confluent_kafka, "ShareConsumer") else []),
    }
)


def adapter() -> Client:
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    return Confluent("confluent-kafka", version, FEATURES, ("range", "roundrobin", "cooperative-sticky"))
