"""A compacted topic: of each key the newest acknowledged number stays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from confluent_kafka import Producer

from cluster_tests import checkers
from cluster_tests.checkers import Entry
from cluster_tests.workloads.workload import PARTITIONS, Workload

KEYS = 20
FILL = "x" * 400
"""Makes segments roll, so that there is something to clean."""


class TableWorkload(Workload):
    """One producer gives each key in turn the next number."""

    topic = "table"
    settings: ClassVar = {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 * 1024),
        "min.cleanable.dirty.ratio": "0.2",
        "max.compaction.lag.ms": "5000",
    }

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}
        self._confirmed = 0
        self._failed: Counter[str] = Counter()
        self._read: list[Entry] = []
        self._left = 0

    def threads(self) -> Iterator[tuple[Any, int]]:
        yield self._produce, 0
        yield (lambda number: self.read_on("read_uncommitted", self._read)), 0

    def counts(self) -> dict[str, int]:
        return {"acknowledged": self._confirmed, "read": len(self._read), "left by the cleaners": self._left}

    def check(self) -> list[str]:
        log = [Entry(one.partition, one.offset, one.value.removesuffix(FILL)) for one in self.read_all()]
        self._left = len(log)
        read = [Entry(one.partition, one.offset, one.value.removesuffix(FILL)) for one in self._read]
        newest: dict[str, int] = {}
        for entry in log:
            key, number = entry.value.split(":")
            newest[key] = max(newest.get(key, -1), int(number))
        return [
            *self.problems,
            *checkers.outdated(self._newest, newest),
            *checkers.doubled(log),
            *checkers.disordered(log),
            *checkers.unrepeatable([read], log, gone=True),
            *([f"{self._failed} records failed"] if self._failed else []),
        ]

    def _produce(self, number: int) -> None:
        def send(producer: Producer, sent: int) -> None:
            key = f"key{sent % KEYS}"
            producer.produce(
                self.topic, f"{key}:{sent}{FILL}", key, partition=sent % KEYS % PARTITIONS, on_delivery=self._delivered
            )

        self.produce(send)

    def _delivered(self, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None:
                self._failed[str(error)] += 1
                return
            key, number = message.value().decode().removesuffix(FILL).split(":")
            self._confirmed += 1
            self._newest[key] = max(self._newest.get(key, -1), int(number))
