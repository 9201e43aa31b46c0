"""Copies messages of one partition to another topic."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client import Client
from kqueue.console.messages.message import Message
from kqueue.console.messages.message_page import MiB, ReadLimits, ReadRequest, offset_ranges, read_page
from kqueue.console.messages.producer import TopicProducer
from kqueue.console.messages.record_form import NewRecord

COUNT_MAX = 10_000
PAGE_MESSAGES = 500
RECORD_BYTES_MAX = 16 * MiB
PARTITION_CHOICES = {"key": "by the key", "same": "the same partition"}


class CopyRequest(NamedTuple):
    """What to copy: so many `messages` from an offset on, up to the end that the log has now.

    `keeps_partition`: into the partition of the same number; otherwise the key chooses.
    """

    topic: str
    partition: int
    offset: int
    messages: int
    target: str
    keeps_partition: bool


class CopyResult(NamedTuple):
    """What was copied. `next_offset`: where a further copy goes on. `left_out`: why it ended before
    the count or the end was reached, or which records could not be read; "": nothing was left out.
    """

    copied: int
    next_offset: int
    left_out: str


def copy_messages(client: Client, request: CopyRequest) -> CopyResult:
    """Copy keys, values, headers and timestamps; records of aborted transactions are left out.

    Durability: a copy that fails has appended the batches before; a second copy appends them again.
    Raises: ValueError: the count, or a topic copied into itself. ClientError.
    """
    if not 1 <= request.messages <= COUNT_MAX:
        raise ValueError(f"count: expected a number from 1 to {COUNT_MAX:,}")
    if request.target == request.topic:
        raise ValueError("target: choose another topic; a topic is not copied into itself")
    partitions = list(client.metadata([request.target]).topics[request.target].partitions)
    ranges = offset_ranges(client, request.topic, [request.partition], "read_committed")
    producer = TopicProducer(client, request.target, partitions)
    offset, left, left_out = request.offset, request.messages, ""
    while left and offset < ranges[request.partition].end:
        limits = ReadLimits(min(left, PAGE_MESSAGES), excerpt_bytes=RECORD_BYTES_MAX, held_bytes=2 * RECORD_BYTES_MAX)
        page = read_page(
            client,
            ReadRequest(request.topic, {request.partition: offset}, "forward", "read_committed", limits=limits),
            ranges,
        )
        left_out = left_out or next((fault.reason for fault in page.faults), "")
        for message in page.messages:
            if message.value.is_cut or message.key.is_cut or message.header_count > len(message.headers):
                producer.flush()
                reason = f"the record at {message.offset} is too large to be copied here"
                return CopyResult(producer.appended, message.offset, reason)
            producer.add(_as_new(message, request.keeps_partition))
        left -= len(page.messages)
        if page.upper[request.partition] <= offset:
            left_out = left_out or "the broker gave no further records"
            break
        offset = page.upper[request.partition]
    producer.flush()
    return CopyResult(producer.appended, offset, left_out)


def _as_new(message: Message, keeps_partition: bool) -> NewRecord:
    return NewRecord(
        message.key.data,
        message.value.data,
        tuple((name, value.data) for name, value in message.headers),
        message.partition if keeps_partition else None,
        message.timestamp_ms,
    )
