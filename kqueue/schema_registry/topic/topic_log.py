"""`SchemaTopicLog`: appends to the topic of the schemas, and fences the writers before it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kqueue.base import events
from kqueue.base.clock import wall_ms
from kqueue.client import Client, ClientOptions, ProducerIdAndEpoch, TopicPartition
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.records.builder import BatchBuilder
from kqueue.schema_registry.records import NoopKey, encode_key
from kqueue.schema_registry.schema_log import NotTheWriter, StoredRecordTooLarge, StoreUnavailable

TRANSACTION_TIMEOUT_MS = 10_000
CATCH_UP_S = 10.0
SEQUENCE_MAX = 2**31 - 1
TOO_LARGE = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
FENCED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
NOT_ALLOWED = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
logger = logging.getLogger("kqueue.schema_registry")


class SchemaTopicLog:
    """The `SchemaLog` over one partition of a Kafka topic; it writes with a client of its own.

    Every batch carries the producer id and epoch of the last `claim`. A claim with a transactional
    id raises the epoch of that id at its coordinator, and the record that it then writes makes the
    partition refuse batches of lower epochs. So when a claim has returned

    1. no earlier claim's batch can be appended any more, also one that is on its way, and
    2. `caught_up` has seen every batch that was appended before.

    No transaction is begun: readers see plain records. The broker forgets an epoch when the
    partition had no batch of the id for producer.id.expiration.ms (a day); a writer that stands
    still for longer is stopped by the generation of its election alone.

    An append whose outcome is unknown ends the claim: the next one begins with another epoch, after
    which the record is either there, or never will be.

    Args:
        fence: the transactional id that all writers of the topic share; None: there is one writer,
            which nothing fences.
        caught_up: waits until the reader has passed this offset; False: it did not, in so many
            seconds.
        between_changes: a block in which no change that was begun waits to be appended: what a
            change was decided by must not be older than the claim that it is written with.
        reader_failure: returns why the topic is not read any more, so that nothing may be written.
    Durability: appended with acks=all.
    Thread: any; one at a time appends.
    """

    def __init__(
        self,
        options: ClientOptions,
        topic: str,
        *,
        fence: str | None,
        caught_up: Callable[[int, float], bool],
        between_changes: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
        reader_failure: Callable[[], StoreUnavailable | None] = lambda: None,
    ) -> None:
        self.lost_claim: Callable[[], None] = lambda: None
        """Called when an append has ended the claim, in the thread that appends."""
        self._client = Client(options)
        self._partition = TopicPartition(topic, 0)
        self._fence = fence
        self._caught_up = caught_up
        self._between_changes = between_changes
        self._reader_failure = reader_failure
        self._lock = threading.Lock()
        self._producer: ProducerIdAndEpoch | None = None
        self._sequence = 0

    @property
    def is_claimed(self) -> bool:
        """Whether `append` may write."""
        return self._producer is not None

    def claim(self, confirm: Callable[[], None] = lambda: None) -> None:
        """Become the writer, and return when all that others wrote has been read.

        Args:
            confirm: raises unless this process still leads. It is called after earlier writers are
                fenced. A later leader fences this one after that, so one that was deposed before
                never writes, and one that is deposed later is refused by the broker.
        Raises: StoreUnavailable: no broker answers, or the reader did not catch up. What `confirm`
            raises.
        """
        self._producer = None
        self._check_reader()
        with self._between_changes(), self._lock:
            with self._store_errors():
                producer = self._new_producer()
            confirm()
            with self._store_errors():
                self._sequence = 0
                offset = self._append(producer, encode_key(NoopKey()), None)
            if not self._caught_up(offset, CATCH_UP_S):
                raise StoreUnavailable(
                    f"the reader of topic {self._partition.topic!r} did not reach offset {offset} within "
                    f"{CATCH_UP_S:g} s"
                )
            self._producer = producer

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise StoreUnavailable(f"this registry can't write to topic {self._partition.topic!r}: {error}") from error

    def release(self) -> None:
        """Append nothing more until the next `claim`."""
        self._producer = None

    def append(self, key: bytes, value: bytes | None) -> int:
        """Write one record; return its offset when all in-sync replicas have it.

        Raises: NotTheWriter, StoredRecordTooLarge: nothing was written. StoreUnavailable: no broker
            confirmed it: the record may be there.
        """
        self._check_reader()
        with self._lock:
            producer = self._producer
            if producer is None:
                raise NotTheWriter("this registry is not the one that writes")
            try:
                return self._append(producer, key, value)
            except ClientError as error:
                if isinstance(error, BrokerRefused) and error.code_name in TOO_LARGE:
                    raise StoredRecordTooLarge(
                        f"topic {self._partition.topic!r} takes no record of {len(key) + len(value or b''):,} bytes: "
                        "raise its max.message.bytes"
                    ) from error
                self._producer = None  # what became of the batch is not known, or its epoch is too low
                refused = error.__cause__ if isinstance(error.__cause__, BrokerRefused) else error
                if isinstance(refused, BrokerRefused) and refused.code_name in FENCED:
                    reason = "another registry leads now"
                else:
                    reason = str(error)
                self.lost_claim()
                raise StoreUnavailable(f"topic {self._partition.topic!r}: {reason}") from error

    def close(self) -> None:
        """End an append under way, and close the connections."""
        self._client.interrupt()
        with self._lock:
            self._producer = None
            self._client.close()

    def _check_reader(self) -> None:
        failure = self._reader_failure()
        if failure is not None:
            raise failure

    def _append(self, producer: ProducerIdAndEpoch, key: bytes, value: bytes | None) -> int:
        builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=self._sequence)
        builder.append(wall_ms(), key, value)
        offset = self._client.produce({self._partition: builder.build()})[self._partition].base_offset
        self._sequence = self._sequence + 1 if self._sequence < SEQUENCE_MAX else 0
        return offset

    def _new_producer(self) -> ProducerIdAndEpoch:
        if self._fence is not None:
            try:
                producer = self._client.transactions.init(self._fence, TRANSACTION_TIMEOUT_MS)
                return ProducerIdAndEpoch(producer.id, producer.epoch)
            except BrokerRefused as error:
                if error.code_name not in NOT_ALLOWED:
                    raise
                events.REGISTRY_NOT_FENCED.log(
                    logger, "the user may not write with transactional id %s: %s", fence=self._fence, error=error
                )
        return self._client.init_producer()
