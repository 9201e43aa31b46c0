"""A workload: threads with librdkafka's clients, and the history that they leave."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster_tests.checkers import Entry

PARTITIONS = 4
REPLICAS, MIN_IN_SYNC = 3, 2
READ_TIMEOUT_S = 60.0
PAUSE_S = 0.01
FLUSH_S = 90.0
UNCONFIRMED_MAX = 2000
END_S = 100.0
"""After which a thread of a workload hangs."""
COMMON = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "socket.timeout.ms": 2000,
    "topic.metadata.refresh.interval.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""Settings of all clients: they find a new leader in a fraction of a second."""
PRODUCER = {
    **COMMON,
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "request.timeout.ms": 2000,
    "message.timeout.ms": 120_000,
}


class WorkloadFailed(Exception):
    """The clients could not do what the workload needs."""


class Workload(ABC):
    """Writes to a topic of its own. `with` begins and ends it.

    Attributes:
        topic: its name, and that of its group.
        bootstrap: of the cluster.
    """

    topic: str
    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.ended = threading.Event()
        self.problems: list[str] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Workload:
        for work, number in self.threads():
            name = f"{self.topic} {number} {work.__name__}"
            self._threads.append(threading.Thread(target=self._guarded, args=(work, number), name=name, daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.ended.set()
        deadline_s = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
            if thread.is_alive():
                self.problems.append(f"{thread.name} does not end: {_stack(thread)}")

    def create(self, settings: Mapping[str, str] | None = None) -> None:
        """Create the topic, with further settings if there are some. Raises: KafkaException."""
        config = {"min.insync.replicas": str(MIN_IN_SYNC), **self.settings, **(settings or {})}
        admin = AdminClient({**COMMON, "bootstrap.servers": self.bootstrap})
        (created,) = admin.create_topics([NewTopic(self.topic, PARTITIONS, REPLICAS, config=config)]).values()
        created.result(READ_TIMEOUT_S)

    @abstractmethod
    def threads(self) -> Iterator[tuple[Any, int]]:
        """Yield what each thread does, a function of its number, and the number."""

    @abstractmethod
    def check(self) -> list[str]:
        """Read everything, once all faults are healed, and return what must not be."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """What was done, for the report."""

    def _guarded(self, work: Any, number: int) -> None:
        try:
            work(number)
        except Exception as error:  # a thread that ends early would make the checks easier
            self.problems.append(f"{self.topic} {number} failed: {type(error).__name__}: {error}")

    def produce(self, send: Callable[[Producer, int], None]) -> None:
        """Call `send` with a producer and the numbers from 0 on, until the workload ends, and wait
        for all confirmations. Raises: WorkloadFailed: some do not come.
        """
        producer = Producer({**PRODUCER, "bootstrap.servers": self.bootstrap})
        for number in itertools.count():
            if self.ended.is_set():
                break
            send(producer, number)
            producer.poll(0)
            while len(producer) > UNCONFIRMED_MAX:
                producer.poll(0.05)
            time.sleep(PAUSE_S)
        if left := producer.flush(FLUSH_S):
            raise WorkloadFailed(f"{left} records were neither confirmed nor refused")

    def read_all(self, isolation: str = "read_committed") -> list[Entry]:
        """Return all records, up to the present ends of the partitions. Raises: WorkloadFailed."""
        entries: list[Entry] = []
        with self.consumer(isolation) as consumer:
            partitions = [TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            missing = set(range(PARTITIONS))
            deadline_s = time.monotonic() + READ_TIMEOUT_S
            while missing:
                message = consumer.poll(0.5)
                if message is not None and (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        missing.discard(message.partition())
                elif message is not None:
                    entries.append(entry_of(message))
                if time.monotonic() > deadline_s:
                    raise WorkloadFailed(f"{self.topic}: the end of partitions {sorted(missing)} was not reached")
        return sorted(entries)

    @contextlib.contextmanager
    def consumer(self, isolation: str, **settings: Any) -> Iterator[Consumer]:
        """Yield a consumer that begins at the beginning, and close it."""
        consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": self.bootstrap,
                "group.id": self.topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.error.backoff.ms": 50,
                "fetch.wait.max.ms": 100,
                **settings,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def read_on(self, isolation: str, entries: list[Entry]) -> None:
        """Add what a consumer without a group reads, until the workload ends."""
        with self.consumer(isolation) as consumer:
            consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
            while not self.ended.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    entries.append(entry_of(message))


def _stack(thread: threading.Thread) -> str:
    """Where a thread is now."""
    frame = sys._current_frames().get(thread.ident or 0)
    return " / ".join(line.strip().replace("\n", ": ") for line in traceback.format_stack(frame)[-4:])


def entry_of(message: Any) -> Entry:
    """The record of a message."""
    return Entry(message.partition(), message.offset(), message.value().decode())


def is_retriable(error: KafkaException) -> bool:
    """Whether a transactional call may be made again."""
    return bool(error.args[0].retriable())


def needs_abort(error: KafkaException) -> bool:
    """Whether the transaction can only be aborted."""
    return bool(error.args[0].txn_requires_abort())
