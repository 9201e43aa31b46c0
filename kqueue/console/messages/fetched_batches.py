"""Batches of one fetch, decoded one record at a time.

A broker may send what no producer of it wrote: each batch is checked by itself, and one that can't
be read takes only its own records with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kqueue.base.errors import CorruptData, KqueueError
from kqueue.client.calls.fetch import FetchedRecords
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import ABORT, BatchHeader, check_crc, decode_control, iter_records
from kqueue.records.message_set import LegacyEntry, entry_records
from kqueue.records.record import Record

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes that the records of one batch may decompress to."""


class RecordBatch(NamedTuple):
    """One batch. `records`: an iterator, which raises KqueueError where they can't be decoded."""

    next_offset: int
    is_log_append_time: bool
    records: Iterator[Record]


class Unreadable(NamedTuple):
    """The rest of a response, whose batches can't be told apart."""

    reason: str


def decoded_batches(
    fetched: FetchedRecords, *, is_committed: bool, limit_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[RecordBatch | Unreadable]:
    """Yield each whole batch; one of a transaction marker, or that is left out, has no records.

    Args: is_committed: leave out records of aborted transactions, which `fetched` names.
    """
    aborted = _AbortedTransactions(fetched) if is_committed else None
    buffer = fetched.records
    try:
        for position, batch in iter_any_batches(buffer):
            if isinstance(batch, LegacyEntry):
                yield RecordBatch(batch.next_offset, batch.is_log_append_time, _entry_records(batch, limit_bytes))
                continue
            is_left_out = aborted is not None and aborted.leaves_out(buffer, position, batch)
            yield RecordBatch(
                batch.next_offset,
                batch.is_log_append_time,
                iter(()) if batch.is_control or is_left_out else _checked(buffer, position, batch, limit_bytes),
            )
    except CorruptData as error:
        yield Unreadable(str(error))


def _entry_records(entry: LegacyEntry, limit_bytes: int) -> Iterator[Record]:
    yield from entry_records(entry, limit_bytes)  # not before the first record is asked for


def _checked(buffer: memoryview, position: int, header: BatchHeader, limit_bytes: int) -> Iterator[Record]:
    check_crc(buffer, position, header)
    yield from iter_records(buffer, position, limit_bytes=limit_bytes)


class _AbortedTransactions:
    """Which producers' transactional batches belong to an aborted transaction, at each batch.

    Source: KIP-98: a response names aborted transactions by producer and first offset; each ends
    with the producer's next abort marker.
    """

    def __init__(self, fetched: FetchedRecords) -> None:
        self._to_come = sorted(fetched.aborted, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def leaves_out(self, buffer: memoryview, position: int, header: BatchHeader) -> bool:
        """Return whether a batch's records are left out; to be asked of every batch in order."""
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._open.add(self._to_come.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._open and _is_abort(buffer, position):
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _is_abort(buffer: memoryview, position: int) -> bool:
    try:
        record = next(iter_records(buffer, position, limit_bytes=1024), None)
        return record is not None and decode_control(record)[0] == ABORT
    except KqueueError:
        return False
