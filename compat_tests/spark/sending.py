"""Appends whole batches of records to topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import Headers

NOW_MS = int(time.time()) * 1_000
"""A recent time: retention would delete older records during a test."""


def batch(
    values: Iterable[bytes | None],
    *,
    codec: str = "none",
    keys: Sequence[bytes | None] | None = None,
    headers: Headers = (),
    time_ms: int = NOW_MS,
) -> bytes:
    """Return one batch; record n has the timestamp `time_ms` + n."""
    builder = BatchBuilder(codec)
    for number, value in enumerate(values):
        builder.append(time_ms + number, None if keys is None else keys[number], value, headers)
    return bytes(builder.build())


def send(broker: kqueue.Broker, topic: str, partition: int, values: Iterable[bytes | None], **how: object) -> None:
    """Append these values as one batch."""
    with Client(broker.bootstrap) as client:
        client.produce({TopicPartition(topic, partition): batch(values, **how)})  # type: ignore[arg-type]
