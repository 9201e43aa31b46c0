"""`SchemaTopicReader`: passes every record of the topic on, from its first, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.client import EARLIEST, LATEST, Client, ClientOptions, TopicPartition
from kqueue.client.errors import ClientError, FetchOutOfRange, Interrupted
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, check_crc, iter_records
from kqueue.records.message_set import entry_records
from kqueue.records.record import Record
from kqueue.schema_registry.schema_log import Apply, StoreUnavailable

FETCH_BYTES_MAX = 8 * 1024 * 1024
FETCH_WAIT_MS = 5_000
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.1, 5.0
logger = logging.getLogger("kqueue.schema_registry")


class SchemaTopicReader:
    """Reads the topic of the schemas with a client of its own.

    `load` reads what is there, in the calling thread; `start` then follows the topic in a thread of
    its own. While no broker answers it tries again, less and less often, and what was read stays.

    Attributes:
        position: the offset of the next record.
        is_connected: whether the last fetch succeeded.
        failure: why the topic is not followed any more; None: it is.
    Raises: StoreUnavailable: of `load`, records are damaged. ClientError: of `load`.
    """

    def __init__(self, options: ClientOptions, topic: str, apply: Apply) -> None:
        self.position = 0
        self.is_connected = False
        self.failure: StoreUnavailable | None = None
        self._client = Client(options)
        self._partition = TopicPartition(topic, 0)
        self._apply = apply
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        """Pass on all records up to the end that the topic has now."""
        self.position, end = self._offset(EARLIEST), self._offset(LATEST)
        while self.position < end:
            self._fetch(wait_ms=0)
        self.is_connected = True

    def start(self) -> None:
        """Follow the topic in a thread, from where `load` ended."""
        self._thread = threading.Thread(target=self._follow, name="kqueue-registry-reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the connections."""
        self._stopping.set()
        if self._thread is not None:
            self._client.interrupt()
            self._thread.join()
        self._client.close()

    def _offset(self, query: int) -> int:
        return self._client.offsets({self._partition: query})[self._partition].offset or 0

    def _follow(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._stopping.is_set():
            try:
                self._fetch(wait_ms=FETCH_WAIT_MS)
            except Interrupted:
                return
            except FetchOutOfRange as error:
                self._end(f"topic {self._partition.topic!r} was deleted or truncated while it was followed: {error}")
                return
            except StoreUnavailable as error:
                self._end(str(error))
                return
            except ClientError as error:
                if self._stopping.is_set():
                    return
                self._disconnected(error)
                self._stopping.wait(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
            except Exception as error:  # of `apply`: nobody else would see that nothing is read any more
                logger.debug("record %d", self.position, exc_info=True)
                self._end(f"the record at offset {self.position} can't be used: {type(error).__name__}: {error}")
                return
            else:
                if not self.is_connected:
                    self.is_connected = True
                    events.REGISTRY_RECONNECTED.log(logger, "topic %s is read again", topic=self._partition.topic)
                backoff_s = BACKOFF_FIRST_S

    def _fetch(self, wait_ms: int) -> None:
        fetched = self._client.fetch(
            {self._partition: self.position},
            max_wait_ms=wait_ms,
            max_bytes=FETCH_BYTES_MAX,
            partition_max_bytes=FETCH_BYTES_MAX,
        )[self._partition]
        try:
            self._pass_on(fetched.records)
        except KqueueError as error:
            raise StoreUnavailable(
                f"topic {self._partition.topic!r} has a damaged batch at offset {self.position} or after it: {error}"
            ) from error

    def _pass_on(self, records: memoryview) -> None:
        found: Iterable[Record]
        for position, batch in iter_any_batches(records):
            if isinstance(batch, BatchHeader):
                check_crc(records, position, batch)
                found = () if batch.is_control else iter_records(records, position)
            else:
                found = entry_records(batch, DECOMPRESSED_BYTES_MAX)
            for record in found:
                if record.offset >= self.position:
                    self._apply(record.offset, record.key, record.value, record.timestamp)
            self.position = max(self.position, batch.next_offset)

    def _disconnected(self, error: ClientError) -> None:
        if self.is_connected:
            self.is_connected = False
            events.REGISTRY_DISCONNECTED.log(
                logger,
                "topic %s can't be read; what was read is served, and no schema is registered: %s",
                topic=self._partition.topic,
                error=error,
            )

    def _end(self, reason: str) -> None:
        self.is_connected = False
        self.failure = StoreUnavailable(f"{reason}; start the registry again")
        events.REGISTRY_STOPPED_READING.log(logger, "%s", error=self.failure)
