"""Transactions: each transfer has two halves in two partitions; the sum of all accounts is zero."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, Producer

from cluster_tests import checkers
from cluster_tests.checkers import Entry
from cluster_tests.cluster import now_s
from cluster_tests.workloads.workload import PARTITIONS, PRODUCER, Workload, WorkloadFailed, is_retriable, needs_abort

CLERKS = 2
ABORTED_SHARE = 0.2
PAUSE_S = 0.02
CALL_S = 10.0
END_S = 90.0


class BankWorkload(Workload):
    """Clerks transfer money between accounts, one partition each, and abort some transfers."""

    topic = "bank"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._outcomes: dict[str, str] = {}
        self._read: list[Entry] = []
        self._fenced = 0

    def threads(self) -> Iterator[tuple[Any, int]]:
        yield from ((self._transfer, number) for number in range(CLERKS))
        yield (lambda number: self.read_on("read_committed", self._read)), 0

    def counts(self) -> dict[str, int]:
        return {**Counter(self._outcomes.values()), "new producers": self._fenced, "read": len(self._read)}

    def check(self) -> list[str]:
        entries = self.read_all("read_committed")
        return [
            *self.problems,
            *checkers.unbalanced(self._outcomes, entries),
            *checkers.doubled(entries),
            *checkers.unrepeatable([self._read], entries),
        ]

    def _transfer(self, number: int) -> None:
        rng = random.Random(number)
        producer = self._new_producer(number)
        made = 0
        while not self.ended.is_set():
            name = f"{number}.{made}"
            made += 1
            self._outcomes[name] = "unknown"
            try:
                self._outcomes[name] = self._one(producer, name, rng)
            except KafkaException:  # fenced, or an outcome that can't be known
                self._fenced += 1
                producer = self._new_producer(number)
            time.sleep(PAUSE_S)

    def _one(self, producer: Producer, name: str, rng: random.Random) -> str:
        """Make one transfer, and return its outcome.

        Raises: KafkaException: the producer is of no more use.
        """
        source, target = rng.sample(range(PARTITIONS), 2)
        amount = rng.randint(1, 100)
        producer.begin_transaction()
        try:
            for account, change in ((source, -amount), (target, amount)):
                producer.produce(self.topic, f"{name}:{account}:{change}", partition=account)
            if rng.random() < ABORTED_SHARE:
                producer.flush(CALL_S)
                _until_done(producer.abort_transaction)
                return "aborted"
            _until_done(producer.commit_transaction)
        except KafkaException as error:
            if not needs_abort(error):
                raise
            _until_done(producer.abort_transaction)
            return "aborted"
        return "committed"

    def _new_producer(self, number: int) -> Producer:
        """Return a producer that has fenced those before it, and ended their transactions."""
        deadline_s = now_s() + END_S
        while True:
            own = {"bootstrap.servers": self.bootstrap, "transactional.id": f"clerk-{number}"}
            producer = Producer({**PRODUCER, **own, "transaction.timeout.ms": 30_000, "message.timeout.ms": 30_000})
            try:
                _until_done(producer.init_transactions)
            except KafkaException as error:
                if now_s() > deadline_s:
                    raise WorkloadFailed(f"clerk {number} got no producer: {error}") from None
                continue
            return producer


def _until_done(call: Any) -> None:
    """Make a call of a transactional producer until it is done. Raises: KafkaException."""
    deadline_s = now_s() + END_S
    while True:
        try:
            call(CALL_S)
        except KafkaException as error:
            if not is_retriable(error) or now_s() > deadline_s:
                raise
        else:
            return
