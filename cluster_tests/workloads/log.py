"""acks=all with idempotence: nothing is lost, doubled or out of order; a group reads all of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, Producer

from cluster_tests import checkers
from cluster_tests.checkers import Entry, GroupEvent, Place
from cluster_tests.cluster import now_s
from cluster_tests.workloads.workload import FLUSH_S, PARTITIONS, Workload, WorkloadFailed
from kqueue.demo.cluster_demo import Confirmations

PRODUCERS, MEMBERS = 2, 2
COMMIT_S = 0.2


class LogWorkload(Workload):
    """Producers write to all partitions in turn; a reader follows; the members of a group commit.

    Attributes: confirmations: when each partition confirmed records, so how long clients waited.
    """

    topic = "log"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.confirmations = Confirmations()
        self._confirming = threading.Lock()
        self._acknowledged: dict[Place, str] = {}
        self._anywhere: set[str] = set()
        self._failed: Counter[str] = Counter()
        self._sent = 0
        self._read: list[Entry] = []
        self._events: list[GroupEvent] = []
        self._processed: set[Place] = set()

    def threads(self) -> Iterator[tuple[Any, int]]:
        yield from ((self._produce, number) for number in range(PRODUCERS))
        yield (lambda number: self.read_on("read_uncommitted", self._read)), 0
        yield from ((self._process, number) for number in range(MEMBERS))

    def counts(self) -> dict[str, int]:
        return {
            "sent": self._sent,
            "acknowledged": len(self._acknowledged) + len(self._anywhere),
            "of unknown offset": len(self._anywhere),
            "failed": self._failed.total(),
            "read": len(self._read),
            "processed": len(self._processed),
            "commits": sum(event.kind == "commit" for event in self._events),
            "rebalanced": sum(event.kind == "begin" for event in self._events),
        }

    def check(self) -> list[str]:
        log = self.read_all("read_uncommitted")
        self._process_rest(log)
        return [
            *self.problems,
            *checkers.lost(self._acknowledged, self._anywhere, log),
            *checkers.doubled(log),
            *checkers.disordered(log),
            *checkers.unrepeatable([self._read], log),
            *checkers.uncommitted(self._events),
            *checkers.unprocessed(log, self._processed),
            *([f"{self._failed} of {self._sent} records failed"] if self._failed else []),
        ]

    def _produce(self, number: int) -> None:
        def send(producer: Producer, sent: int) -> None:
            for partition in range(PARTITIONS):
                value = f"{number}.{partition}:{sent}"
                producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
                self._sent += 1

        self.produce(send)

    def _delivered(self, error: Any, message: Any) -> None:
        with self._confirming:
            if error is not None:
                self._failed[str(error)] += 1
                return
            value = message.value().decode()
            if message.offset() is None:  # a retry whose first try was already stored
                self._anywhere.add(value)
            else:
                self._acknowledged[message.partition(), message.offset()] = value
            self.confirmations.note(message.partition())

    def _process(self, number: int) -> None:
        """As a member of the group: read, note, commit."""
        with self.consumer("read_committed", **GROUP) as consumer:
            consumer.subscribe([self.topic], on_assign=self._assigned)
            committed_s = now_s()
            while not self.ended.is_set():
                self._take(consumer.poll(0.05))
                if now_s() - committed_s > COMMIT_S:
                    committed_s = now_s()
                    self._commit(consumer)

    def _take(self, message: Any) -> None:
        if message is not None and message.error() is None:
            self._processed.add((message.partition(), message.offset()))

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Begin at the committed offsets, which are asked for here so that it is known when."""
        while not self.ended.is_set():
            began_s = now_s()
            try:
                committed = consumer.committed(partitions, timeout=5)
            except KafkaException:
                continue
            ended_s = now_s()
            self._events += [
                GroupEvent("begin", one.partition, max(-1, one.offset), began_s, ended_s) for one in committed
            ]
            consumer.assign(committed)
            return

    def _commit(self, consumer: Any) -> None:
        began_s = now_s()
        try:
            stored = consumer.commit(asynchronous=False) or []
        except KafkaException:
            return  # unknown, refused, or nothing to commit
        ended_s = now_s()
        self._events += [
            GroupEvent("commit", one.partition, one.offset, began_s, ended_s) for one in stored if one.error is None
        ]

    def _process_rest(self, log: list[Entry]) -> None:
        """Let a last member go on from the committed offsets to the end."""
        self.ended.clear()
        ends = {entry.partition: entry.offset for entry in log}
        deadline_s = now_s() + FLUSH_S
        with self.consumer("read_committed", **GROUP) as consumer:
            reached: dict[int, int] = {}

            def assigned(consumer: Any, partitions: list[Any]) -> None:
                self._assigned(consumer, partitions)
                begins = [event for event in self._events if event.kind == "begin"][-len(partitions) :]
                reached.update({event.partition: event.offset - 1 for event in begins})

            consumer.subscribe([self.topic], on_assign=assigned)
            while any(reached.get(partition, -1) < end for partition, end in ends.items()):
                message = consumer.poll(0.5)
                self._take(message)
                if message is not None and message.error() is None:
                    reached[message.partition()] = message.offset()
                if now_s() > deadline_s:
                    raise WorkloadFailed(f"the group did not come to the end: {reached} of {ends}")
        self.ended.set()


GROUP = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
