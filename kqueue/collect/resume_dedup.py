"""Finds the lines that a killed agent had sent after it last saved its position.

Each record names its line, so the topic itself has that information.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.base.clock import monotonic_s

if TYPE_CHECKING:
    from kafka import KafkaConsumer

SILENCE_S = 10.0
OFFSET_DIGITS_MAX = 18  # of a position in a file, which fits 63 bits
RECORDS_MAX = 1_000_000  # after the last confirmed record, with those of other producers; beyond, lines may come twice


class DeliveredLine(NamedTuple):
    """A line, or a part of one, that is in the topic.

    `size`: bytes of its value; an unfinished line may have grown since.
    """

    source: str
    offset: int
    size: int


class DeliveredLines(NamedTuple):
    """The lines batches.

    `ends`: end offset by partition. `complete`: False if there were too many records.
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
    now_s: Callable[[], float] = monotonic_s,
) -> DeliveredLines:
    """Read the topic from `ends` on and return the lines of `sources`.

    With `ends` None read nothing.

    Args:
        options: of the consumer.
        ends: offset by partition; a partition that is missing is newer and is read from its
            beginning.
    Raises: KafkaError: the broker does not answer in time.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(group_id=None, enable_auto_commit=False, **options)
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        end_offsets = {
            topic_partition.partition: end for topic_partition, end in consumer.end_offsets(partitions).items()
        }
        if ends is None or not partitions:
            return DeliveredLines(frozenset(), end_offsets)
        starts = {
            topic_partition.partition: start
            for topic_partition, start in consumer.beginning_offsets(partitions).items()
        }
        consumer.assign(partitions)
        for topic_partition in partitions:
            number = topic_partition.partition
            consumer.seek(topic_partition, min(max(ends.get(number, 0), starts[number]), end_offsets[number]))
        arrived, complete = _read(
            consumer,
            {topic_partition: end_offsets[topic_partition.partition] for topic_partition in partitions},
            frozenset(sources),
            records_max,
            now_s,
        )
        return DeliveredLines(frozenset(arrived), end_offsets, complete)
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
    count, last_record_s = 0, now_s()
    while any(consumer.position(topic_partition) < end for topic_partition, end in ends.items()):
        batches = consumer.poll(timeout_ms=200)
        for records in batches.values():
            count += len(records)
            arrived.update(line for line in map(_line_of, records) if line is not None and line.source in sources)
        if count >= records_max:
            return arrived, False
        if batches:
            last_record_s = now_s()
        elif now_s() - last_record_s > SILENCE_S:
            raise KafkaTimeoutError(f"nothing came for {SILENCE_S:.0f} s")
    return arrived, True


def _line_of(record: Any) -> DeliveredLine | None:
    """Return the line that a record's headers name; None: not a record of an agent."""
    headers = dict(record.headers)
    source, offset = headers.get("source"), headers.get("offset")
    if source is None or offset is None or record.value is None:
        return None  # another producer's record, or a tombstone
    if not offset.isdigit() or len(offset) > OFFSET_DIGITS_MAX:
        return None  # headers of these names that are not ours
    return DeliveredLine(source.decode(errors="replace"), int(offset), len(record.value))
