"""One message, as a page holds it: long keys and values are excerpts."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.records.record import Record

HEADERS_MAX = 100


class Excerpt(NamedTuple):
    """The first bytes of a key or value. `data`: None: null. `size`: of the whole, in bytes."""

    data: bytes | None
    size: int

    @property
    def is_cut(self) -> bool:
        """Whether bytes are missing."""
        return self.data is not None and len(self.data) < self.size


class Message(NamedTuple):
    """A record of a partition.

    Attributes:
        timestamp_ms: ms since 1970; -1: none.
        is_log_append_time: the time is the broker's, not the producer's.
        headers: the first `HEADERS_MAX`. header_count: how many there are.
    """

    partition: int
    offset: int
    timestamp_ms: int
    is_log_append_time: bool
    key: Excerpt
    value: Excerpt
    headers: tuple[tuple[str, Excerpt], ...]
    header_count: int

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory its contents take."""
        parts = [self.key, self.value, *(value for _, value in self.headers)]
        return sum(len(part.data or b"") for part in parts) + sum(len(name) for name, _ in self.headers)


class Fault(NamedTuple):
    """What stands in place of records that can't be read.

    Attributes:
        offset: where they begin.
        next_offset: where reading goes on; None: nowhere in this partition.
        reason: one sentence.
    """

    partition: int
    offset: int
    next_offset: int | None
    reason: str


def excerpt(data: bytes | None, bytes_max: int) -> Excerpt:
    """Return at most the first `bytes_max` bytes."""
    return Excerpt(None, 0) if data is None else Excerpt(data[:bytes_max], len(data))


def message_of(partition: int, record: Record, *, is_log_append_time: bool, bytes_max: int) -> Message:
    """Return a record with keys, values and header values of at most `bytes_max` bytes each."""
    headers = tuple((name[:bytes_max], excerpt(value, bytes_max)) for name, value in record.headers[:HEADERS_MAX])
    return Message(
        partition,
        record.offset,
        record.timestamp,
        is_log_append_time,
        excerpt(record.key, bytes_max),
        excerpt(record.value, bytes_max),
        headers,
        len(record.headers),
    )
