"""Helpers of the tests of messages: fetched records, and brokers that answer as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from kqueue.client import AbortedTxn, Client, FetchedRecords, OffsetAndTimestamp, TopicPartition
from kqueue.records.batch import iter_batches
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

TIME_MS = 1_700_000_000_000


def records(values: Iterable[bytes | None], base_offset: int = 0, **fields: Any) -> list[Record]:
    """Records a second apart, each with its offset as its key."""
    return [
        Record(base_offset + at, TIME_MS + (base_offset + at) * 1000, b"%d" % (base_offset + at), value, **fields)
        for at, value in enumerate(values)
    ]


def batch(values: Iterable[bytes | None], base_offset: int = 0, **settings: Any) -> bytes:
    """One batch of `records`."""
    return bytes(build_batch(records(values, base_offset), **settings))


def fetched(data: bytes, end: int = 1_000, aborted: Iterable[AbortedTxn] = ()) -> FetchedRecords:
    """An answer to a fetch."""
    return FetchedRecords(memoryview(data), end, end, 0, tuple(aborted))


class FakeClient:
    """Serves batches per partition from memory, as leaders do: from the one that has the offset on.

    Attributes: fetches: the offsets of each fetch. intercept: called before each fetch.
    Args: chunk: batches of one answer.
    """

    def __init__(self, batches: Mapping[int, list[bytes]], *, chunk: int = 3) -> None:
        self.batches = batches
        self.chunk = chunk
        self.fetches: list[dict[int, int]] = []
        self.intercept: Callable[[dict[int, int]], None] = lambda offsets: None
        self.aborted: tuple[AbortedTxn, ...] = ()

    def fetch(self, offsets: Mapping[TopicPartition, int], **_: Any) -> dict[TopicPartition, FetchedRecords]:
        """Answer a fetch."""
        asked = {one.partition: offset for one, offset in offsets.items()}
        self.fetches.append(asked)
        self.intercept(asked)
        return {one: self._answer(one.partition, offset) for one, offset in offsets.items()}

    def _answer(self, partition: int, offset: int) -> FetchedRecords:
        whole = [each for each in self.batches[partition] if last_offset(each) >= offset]
        return fetched(b"".join(whole[: self.chunk]), aborted=self.aborted)

    def offsets(self, queries: Mapping[TopicPartition, int], **_: Any) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Answer a query for EARLIEST (-2), LATEST (-1) or a time."""
        answer = {}
        for one, query in queries.items():
            held = self.batches[one.partition]
            first, end = (first_offset(held[0]), last_offset(held[-1]) + 1) if held else (0, 0)
            offset = {-2: first, -1: end}.get(query, first)
            answer[one] = OffsetAndTimestamp(offset, -1, -1)
        return answer

    @property
    def as_client(self) -> Client:
        """The same, as what functions take."""
        return cast(Client, self)


def first_offset(data: bytes) -> int:
    """The base offset of a batch, or of a broken one."""
    return int.from_bytes(data[:8], "big")


def last_offset(data: bytes) -> int:
    """The last offset of a batch, or of a broken one the first."""
    return next((header.last_offset for _, header in iter_batches(data)), first_offset(data))
