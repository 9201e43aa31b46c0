"""A transaction that hangs: open in a partition, and unknown to its coordinator."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.client.calls.produce import Buffer, Produce
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

MINUTE_MS = 60_000


class ProduceAlone(Produce):
    """A batch in a transaction that the coordinator does not know."""

    def versions(self, cluster: MetadataCache, topics: Any) -> tuple[int, int]:
        return 3, 9

    def request(
        self, version: int, requested: Mapping[TopicPartition, Buffer], cluster: MetadataCache, deadline: Deadline
    ) -> Any:
        request = super().request(version, requested, cluster, deadline)
        request.transactional_id = "nobody"
        return request


def hang(broker: kqueue.Broker, partition: TopicPartition, producer_id: int, minutes_ago: int) -> int:
    """Open a transaction that hangs; return its first offset."""
    at_ms = int(time.time() * 1000) - minutes_ago * MINUTE_MS
    batch = build_batch(
        [Record(0, at_ms, b"k", b"v")], producer_id=producer_id, epoch=0, base_sequence=0, transactional=True
    )
    with Client(broker.bootstrap) as client, client._router.call(None) as deadline:
        results = client._router.send_to_leaders(ProduceAlone(-1, repeatable=False), {partition: batch}, deadline)
    return results[partition].base_offset
