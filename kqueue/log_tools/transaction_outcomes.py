"""Which batches of a log belong to aborted transactions, found from the markers in it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from kqueue.log_tools.segments import ReadableBatch
from kqueue.records.batch import BatchHeader
from kqueue.records.record import ABORT, COMMIT, decode_control


class AbortedRanges:
    """Where transactions that were aborted lie, three numbers each: made from their beginnings and
    markers.
    """

    def __init__(self) -> None:
        self._first: dict[int, array[int]] = {}  # producer id -> first and marker offsets, rising
        self._last: dict[int, array[int]] = {}

    def add(self, producer_id: int, first: int, marker: int) -> None:
        """The markers of a producer must rise."""
        self._first.setdefault(producer_id, array("q")).append(first)
        self._last.setdefault(producer_id, array("q")).append(marker)

    def has(self, batch: ReadableBatch) -> bool:
        """Whether a batch of data belongs to one of them."""
        header = batch.unit
        if not isinstance(header, BatchHeader) or not header.is_transactional:
            return False
        markers = self._last.get(header.producer_id, array("q"))
        number = bisect_left(markers, header.last_offset)
        return number < len(markers) and self._first[header.producer_id][number] <= header.base_offset


class TransactionOutcomes:
    """What the markers in `batches` decide: made in one pass over headers, keeping three numbers
    per aborted transaction.

    `first_unstable_offset`: the offset at which the first open transaction begins; None: none is open. Raises:
    as reading the batches does.
    """

    def __init__(self, batches: Iterable[ReadableBatch]) -> None:
        self._aborted = AbortedRanges()
        begun: dict[int, int] = {}
        for batch in batches:
            header = batch.unit
            if not isinstance(header, BatchHeader) or not header.is_transactional or not header.record_count:
                continue
            if not header.is_control:
                begun.setdefault(header.producer_id, header.base_offset)
                continue
            kind = decode_control(next(batch.records()))[0]
            first = begun.pop(header.producer_id, None) if kind in (ABORT, COMMIT) else None
            if kind == ABORT and first is not None:
                self._aborted.add(header.producer_id, first, header.last_offset)
        self.first_unstable_offset = min(begun.values(), default=None)

    def is_aborted(self, batch: ReadableBatch) -> bool:
        """Whether a batch of data belongs to a transaction that was aborted."""
        return self._aborted.has(batch)
