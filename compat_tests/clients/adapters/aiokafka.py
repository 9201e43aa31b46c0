"""The adapter of aiokafka.

Its coroutines run on one event loop in a thread, so that the scenarios can be plain functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from compat_tests.clients.adapters.aiokafka_loop import run, started
from compat_tests.clients.adapters.contract import (
    ACKS_NONE,
    ADMIN_CONFIGS,
    ADMIN_DELETE_RECORDS,
    ADMIN_GROUPS,
    ADMIN_PARTITIONS,
    AUTHENTICATION,
    AUTHORIZATION,
    HEARTBEAT_MS_MAX,
    IDEMPOTENCE,
    NULL_HEADERS,
    QUOTAS,
    READ_COMMITTED,
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
)
from compat_tests.clients.security import connecting

T = TypeVar("T")
VERSION = tuple(int(part) for part in aiokafka.__version__.split(".")[:2])
ABANDON_S = 1
ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def _call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function on the event loop thread, because aiokafka is not thread-safe."""

    async def calling() -> T:
        return function(*args, **kwargs)

    return run(calling())


def _point(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


class _Pending:
    def __init__(self, future: Awaitable[Any]) -> None:
        self._future = future

    def result(self, timeout_s: float = 20) -> RecordMetadata:
        async def waiting() -> Any:
            return await asyncio.wait_for(asyncio.shield(self._future), timeout_s)

        metadata = run(waiting())
        return RecordMetadata(metadata.partition, metadata.offset) if metadata is not None else RecordMetadata(-1, -1)


class _Producer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        async def opening() -> AIOKafkaProducer:
            settings: dict[str, Any] = {"enable_idempotence": True} if options.idempotent else {}
            if options.transactional_id is not None:
                settings["transactional_id"] = options.transactional_id
                settings["transaction_timeout_ms"] = options.transaction_timeout_ms
            producer = AIOKafkaProducer(
                **{
                    **connecting("aiokafka", bootstrap),
                    "acks": options.acks if options.acks >= 0 else "all",
                    "compression_type": None if options.codec == "none" else options.codec,
                    "linger_ms": options.linger_ms,
                    "max_batch_size": options.batch_bytes,
                    "max_request_size": options.request_bytes_max,
                    **settings,
                    **options.config,
                }
            )
            await started(producer)
            return producer

        self._producer = run(opening())

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
        return _Pending(
            run(
                self._producer.send(
                    topic, value, key=key, headers=list(headers), partition=partition, timestamp_ms=timestamp_ms
                )
            )
        )

    def flush(self, timeout_s: float = 30) -> None:
        run(self._producer.flush(), timeout_s)

    def begin_transaction(self) -> None:
        run(self._producer.begin_transaction())

    def send_offsets(self, offsets: Mapping[Place, int], consumer: Consumer) -> None:
        points = {_point(place): offset for place, offset in offsets.items()}
        run(self._producer.send_offsets_to_transaction(points, consumer.group_metadata()))

    def commit_transaction(self) -> None:
        run(self._producer.commit_transaction())

    def abort_transaction(self) -> None:
        run(self._producer.abort_transaction())

    def abandon(self) -> None:
        # stop() waits for records that a fenced producer never sends
        with suppress(TimeoutError):
            run(self._producer.stop(), ABANDON_S)

    def close(self) -> None:
        run(self._producer.stop())


class _Consumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        settings: dict[str, Any] = {}
        self._group = options.group
        if options.assignor is not None:
            settings["partition_assignment_strategy"] = [ASSIGNORS[options.assignor]]
        if options.instance_id is not None:
            settings["group_instance_id"] = options.instance_id
        if options.rack is not None:
            settings["client_rack"] = options.rack

        async def opening() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                **{
                    **connecting("aiokafka", bootstrap),
                    "group_id": options.group,
                    "auto_offset_reset": options.reset,
                    "enable_auto_commit": options.auto_commit_ms is not None,
                    "auto_commit_interval_ms": options.auto_commit_ms or 5_000,
                    "session_timeout_ms": options.session_ms,
                    "heartbeat_interval_ms": min(options.session_ms // 4, HEARTBEAT_MS_MAX),
                    "isolation_level": "read_committed" if options.read_committed else "read_uncommitted",
                    "fetch_min_bytes": options.fetch_bytes_min,
                    "fetch_max_wait_ms": options.fetch_wait_ms,
                    "max_partition_fetch_bytes": options.partition_bytes_max,
                    "metadata_max_age_ms": options.metadata_age_ms,
                    "max_poll_records": options.poll_records_max,
                    **settings,
                    **options.config,
                }
            )
            await started(consumer)
            return consumer

        self._consumer = run(opening())

    def subscribe(self, topics: Sequence[str]) -> None:
        _call(self._consumer.subscribe, list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        _call(self._consumer.subscribe, pattern=pattern)

    def assign(self, places: Iterable[Place]) -> None:
        _call(self._consumer.assign, [_point(place) for place in places])

    def assignment(self) -> set[Place]:
        return {Place(*point) for point in _call(self._consumer.assignment)}

    def poll(self, timeout_s: float) -> list[Record]:
        batches = run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [
            Record(Place(*point), record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
            for point, records in batches.items()
            for record in records
        ]

    def seek(self, place: Place, offset: int) -> None:
        _call(self._consumer.seek, _point(place), offset)

    def seek_to_beginning(self, place: Place) -> None:
        run(self._consumer.seek_to_beginning(_point(place)))

    def seek_to_end(self, place: Place) -> None:
        run(self._consumer.seek_to_end(_point(place)))

    def position(self, place: Place) -> int:
        offset: int = run(self._consumer.position(_point(place)))
        return offset

    def pause(self, place: Place) -> None:
        _call(self._consumer.pause, _point(place))

    def resume(self, place: Place) -> None:
        _call(self._consumer.resume, _point(place))

    def beginning_offset(self, place: Place) -> int:
        offset: int = run(self._consumer.beginning_offsets([_point(place)]))[_point(place)]
        return offset

    def end_offset(self, place: Place) -> int:
        offset: int = run(self._consumer.end_offsets([_point(place)]))[_point(place)]
        return offset

    def offset_for_time(self, place: Place, timestamp_ms: int) -> OffsetAndTimestamp | None:
        offset = run(self._consumer.offsets_for_times({_point(place): timestamp_ms}))[_point(place)]
        return OffsetAndTimestamp(offset.offset, offset.timestamp) if offset is not None else None

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        run(
            self._consumer.commit(
                None if offsets is None else {_point(place): offset for place, offset in offsets.items()}
            )
        )

    def committed(self, place: Place) -> int | None:
        offset: int | None = run(self._consumer.committed(_point(place)))
        return offset

    def group_metadata(self) -> Any:
        return self._group

    def partitions(self, topic: str) -> set[int]:
        return set(_call(self._consumer.partitions_for_topic, topic) or ())

    def close(self) -> None:
        # stop() passes on the cancellation of its own fetcher, where that was waiting to try again.
        with suppress(CancelledError):
            run(self._consumer.stop())


class AioKafka(Client):
    """aiokafka of whichever version is installed."""

    def producer(self, bootstrap: str, options: ProducerOptions) -> _Producer:
        return _Producer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> _Consumer:
        return _Consumer(bootstrap, options)

    def admin(self, bootstrap: str, config: Config) -> Admin:
        from compat_tests.clients.adapters import (
            aiokafka_admin,
        )  # only some scenarios need it, and what it imports differs by version

        return aiokafka_admin.Admin(bootstrap, config)

    def impatient(self, reasons: list[str]) -> Config:
        return {"request_timeout_ms": 1_500}

    def with_token(self, token: str, expires_s: float) -> Config:
        class Provider(AbstractTokenProvider):
            async def token(self) -> str:
                return token

        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}


def _features() -> Iterator[str]:
    yield from (
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
    )
    if VERSION >= (0, 11):
        yield ADMIN_DELETE_RECORDS


def adapter() -> Client:
    return AioKafka("aiokafka", aiokafka.__version__, frozenset(_features()), tuple(ASSIGNORS))
