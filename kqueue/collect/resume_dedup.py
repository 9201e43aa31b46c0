"""What an agent that was killed had sent beyond the position that it kept: the topic itself knows,
since each record names its line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kafka import KafkaConsumer

SILENCE_S = 10.0
RECORDS_MAX = (
    1_000_000  # between the last confirmed record and the end, those of others included; beyond it lines may come twice
)


class DeliveredLine(NamedTuple):
    """A line, or a part of one, that is in the topic. `size` of its value in bytes: what was
    unfinished then may have grown since.
    """

    source: str
    offset: int
    size: int


class DeliveredLines(NamedTuple):
    """`ends`: by partition, where the topic ends now. complete: False if it was too far to look at
    all of it.
    """

    arrived: frozenset[DeliveredLine]
    ends: dict[int, int]
    complete: bool = True


def find_delivered(
    options: Mapping[str, Any],
    topic: str,
    ends: Mapping[int, int] | None,
    sources: Collection[str],
    *,
    records_max: int = RECORDS_MAX,
    now_s: Callable[[], float] = time.monotonic,
) -> DeliveredLines:
    """Read the topic from `ends` on, and find the lines of `sources`. With `ends` None nothing is
    read.

    Args: ends: by partition; one that is not in it is read from its beginning, since it came later.
    options: of a client. Raises KafkaError: the broker does not answer in time.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(group_id=None, enable_auto_commit=False, **options)
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        now = {place.partition: end for place, end in consumer.end_offsets(partitions).items()}
        if ends is None or not partitions:
            return DeliveredLines(frozenset(), now)
        starts = {place.partition: start for place, start in consumer.beginning_offsets(partitions).items()}
        consumer.assign(partitions)
        for place in partitions:
            number = place.partition
            consumer.seek(place, min(max(ends.get(number, 0), starts[number]), now[number]))
        arrived, complete = _read(
            consumer, {place: now[place.partition] for place in partitions}, frozenset(sources), records_max, now_s
        )
        return DeliveredLines(frozenset(arrived), now, complete)
    finally:
        consumer.close()


def _read(
    consumer: KafkaConsumer,
    ends: Mapping[Any, int],
    sources: Collection[str],
    records_max: int,
    now_s: Callable[[], float],
) -> tuple[set[DeliveredLine], bool]:
    from kafka.errors import KafkaTimeoutError

    arrived: set[DeliveredLine] = set()
    count, heard_s = 0, now_s()
    while any(consumer.position(place) < end for place, end in ends.items()):
        found = consumer.poll(timeout_ms=200)
        for records in found.values():
            count += len(records)
            arrived.update(line for line in map(_line_of, records) if line is not None and line.source in sources)
        if count >= records_max:
            return arrived, False
        if found:
            heard_s = now_s()
        elif now_s() - heard_s > SILENCE_S:
            raise KafkaTimeoutError(f"nothing came for {SILENCE_S:.0f} s")
    return arrived, True


def _line_of(record: Any) -> DeliveredLine | None:
    """The line that a record says it is; None if it is nobody's, or says so badly."""
    headers = dict(record.headers)
    source, offset = headers.get("source"), headers.get("offset")
    if source is None or offset is None or record.value is None or not offset.isdigit() or len(offset) > 18:
        return None
    return DeliveredLine(source.decode(errors="replace"), int(offset), len(record.value))
