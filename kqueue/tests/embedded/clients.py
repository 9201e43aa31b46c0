"""One interface over kafka-python and aiokafka, so that one test covers both.

Use it as `with clients() as ...`, which closes what it opened.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.cli.topic_reader import take_up_join
from kqueue.tests.waits import eventually

T = TypeVar("T")
WITHIN_S = 60.0
POLL_MS = 5_000
"""A poll ends with the first records. While kafka-python joins a group nothing else may end it: the
join is left half done (3.0.12).
"""


class Consumer(ABC):
    """A consumer used by one thread."""

    @abstractmethod
    def poll(self, timeout_ms: int) -> list[Any]:
        """Return the records that arrive within this time."""

    @abstractmethod
    def committed(self, topic: str, partition: int = 0) -> int | None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def end_offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the offsets of the first record and after the last one."""

    @abstractmethod
    def close(self) -> None: ...

    def take(self, count: int, within_s: float = WITHIN_S) -> list[bytes]:
        """Return the values of the next records, at least `count` of them."""
        values: list[bytes] = []
        eventually(
            lambda: values.extend(record.value for record in self.poll(POLL_MS)) or len(values) >= count,
            f"{count} records",
            within_s,
        )
        return values

    def take_to(self, last: bytes) -> list[bytes]:
        """Return the values of the next records, up to the one with this value."""
        values: list[bytes] = []
        eventually(lambda: values.extend(record.value for record in self.poll(POLL_MS)) or last in values, f"{last!r}")
        return values


class Clients(ABC):
    """All clients of one broker in one test."""

    def __init__(self, broker: kqueue.Broker, cleanup: ExitStack) -> None:
        self.broker = broker
        self.cleanup = cleanup
        self.producer_options: dict[str, Any] = {}
        """What `send` makes its producer with, set before the first record."""

    @abstractmethod
    def send(
        self, topic: str, *values: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Send the values; wait until each is confirmed before sending the next."""

    @abstractmethod
    def consumer(self, *topics: str, **options: Any) -> Consumer:
        """Return a consumer that reads from the earliest record and does not commit.

        Args: options: settings that override this.
        """

    def soon(self, run: Callable[..., T], *args: Any) -> Future[T]:
        """Run a blocking call in a thread."""
        pool = ThreadPoolExecutor(1)
        self.cleanup.callback(pool.shutdown)
        return pool.submit(run, *args)


DEFAULTS: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}


class PythonConsumer(Consumer):
    def __init__(self, bootstrap: str, *topics: str, **options: Any) -> None:
        self._consumer = KafkaConsumer(*topics, bootstrap_servers=bootstrap, **{**DEFAULTS, **options})

    def poll(self, timeout_ms: int) -> list[Any]:
        batches = self._consumer.poll(timeout_ms)
        take_up_join(self._consumer)
        return [record for records in batches.values() for record in records]

    def committed(self, topic: str, partition: int = 0) -> int | None:
        offset: int | None = self._consumer.committed(TopicPartition(topic, partition))
        return offset

    def commit(self) -> None:
        self._consumer.commit()

    def end_offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        return self._consumer.beginning_offsets([place])[place], self._consumer.end_offsets([place])[place]

    def close(self) -> None:
        self._consumer.close()


class PythonClients(Clients):
    """kafka-python."""

    _producer: KafkaProducer | None = None

    def send(
        self, topic: str, *values: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        if self._producer is None:
            self._producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, **self.producer_options)
            self.cleanup.callback(self._producer.close)
        for value in values:
            self._producer.send(topic, value, key=key, timestamp_ms=timestamp_ms).get(WITHIN_S)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        made = PythonConsumer(self.broker.bootstrap, *topics, **options)
        self.cleanup.callback(made.close)
        return made


class AioConsumer(Consumer):
    def __init__(self, clients: AioClients, *topics: str, **options: Any) -> None:
        self._wait = clients.wait
        self._starting: Future[None] | None = None
        options = {**DEFAULTS, **options}

        async def make() -> AIOKafkaConsumer:
            return AIOKafkaConsumer(*topics, bootstrap_servers=clients.broker.bootstrap, **options)

        self._consumer = clients.wait(make())
        # with a group it returns only once partitions are assigned
        self._starting = clients.begin(self._consumer.start())
        self._closed = False

    def _started(self) -> None:
        assert self._starting is not None
        self._starting.result(WITHIN_S)

    def poll(self, timeout_ms: int) -> list[Any]:
        self._started()
        batches = self._wait(self._consumer.getmany(timeout_ms=timeout_ms))
        return [record for records in batches.values() for record in records]

    def committed(self, topic: str, partition: int = 0) -> int | None:
        self._started()
        offset: int | None = self._wait(self._consumer.committed(TopicPartition(topic, partition)))
        return offset

    def commit(self) -> None:
        self._started()
        self._wait(self._consumer.commit())

    def end_offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        self._started()
        place = TopicPartition(topic, partition)
        first, end = (
            self._wait(self._consumer.beginning_offsets([place])),
            self._wait(self._consumer.end_offsets([place])),
        )
        return first[place], end[place]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wait(self._consumer.stop())


class AioClients(Clients):
    """aiokafka, on an event loop in a thread."""

    _producer: AIOKafkaProducer | None = None

    def __init__(self, broker: kqueue.Broker, cleanup: ExitStack) -> None:
        super().__init__(broker, cleanup)
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        cleanup.callback(self._loop.close)
        cleanup.callback(thread.join)
        cleanup.callback(self._loop.call_soon_threadsafe, self._loop.stop)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.begin(work).result(WITHIN_S)

    def send(
        self, topic: str, *values: bytes | None, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        async def send() -> None:
            if self._producer is None:
                options = {"enable_idempotence": True, **self.producer_options}
                self._producer = AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, **options)
                await self._producer.start()
            for value in values:
                await self._producer.send_and_wait(topic, value, key=key, timestamp_ms=timestamp_ms)

        if self._producer is None:
            self.cleanup.callback(self._stop_producer)
        self.wait(send())

    def _stop_producer(self) -> None:
        assert self._producer is not None
        self.wait(self._producer.stop())

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        made = AioConsumer(self, *topics, **options)
        self.cleanup.callback(made.close)
        return made


KINDS: dict[str, type[PythonClients | AioClients]] = {"kafka-python": PythonClients, "aiokafka": AioClients}


@contextmanager
def clients(kind: str, broker: kqueue.Broker) -> Iterator[Clients]:
    """Yield the clients of one library and close them afterwards."""
    with ExitStack() as cleanup:
        yield KINDS[kind](broker, cleanup)
