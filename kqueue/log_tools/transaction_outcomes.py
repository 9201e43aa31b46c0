"""Finds the batches of aborted transactions from the control batches of a log."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from kqueue.log_tools.segments import ReadableBatch
from kqueue.records.batch import BatchHeader
from kqueue.records.record import ABORT, COMMIT, decode_control


class AbortedRanges:
    """Offset ranges of aborted transactions by producer, three numbers for each."""

    def __init__(self) -> None:
        self._first: dict[int, array[int]] = {}  # producer id -> first offsets and marker offsets, ascending
        self._last: dict[int, array[int]] = {}

    def add(self, producer_id: int, first: int, marker: int) -> None:
        """Add a transaction; the markers of a producer must come in offset order."""
        self._first.setdefault(producer_id, array("q")).append(first)
        self._last.setdefault(producer_id, array("q")).append(marker)

    def has(self, batch: ReadableBatch) -> bool:
        """Return whether a data batch belongs to one of them."""
        header = batch.unit
        if not isinstance(header, BatchHeader) or not header.is_transactional:
            return False
        markers = self._last.get(header.producer_id, array("q"))
        number = bisect_left(markers, header.last_offset)
        return number < len(markers) and self._first[header.producer_id][number] <= header.base_offset


class TransactionOutcomes:
    """The outcomes of the transactions in `batches`, found in one pass over their headers.

    Memory: three numbers per aborted transaction. `first_unstable_offset`: where the first open
    transaction begins; None: none is open.

    Raises: as reading the batches does.
    """

    def __init__(self, batches: Iterable[ReadableBatch]) -> None:
        self._aborted = AbortedRanges()
        open_transactions: dict[int, int] = {}  # producer id -> first offset
        for batch in batches:
            header = batch.unit
            if not isinstance(header, BatchHeader) or not header.is_transactional or not header.record_count:
                continue
            if not header.is_control:
                open_transactions.setdefault(header.producer_id, header.base_offset)
                continue
            kind = decode_control(next(batch.records()))[0]
            first = open_transactions.pop(header.producer_id, None) if kind in (ABORT, COMMIT) else None
            if kind == ABORT and first is not None:
                self._aborted.add(header.producer_id, first, header.last_offset)
        self.first_unstable_offset = min(open_transactions.values(), default=None)

    def is_aborted(self, batch: ReadableBatch) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        return self._aborted.has(batch)
